r"""MimiC: a client corrects its update by how the last one differed from the server's step.

A client sends :math:`c = \Delta - \Delta_{last} + D`, with :math:`D` the global step of its last
counted round as it was applied, and :math:`c = \Delta` at its first turn. The server moves by
:math:`x \leftarrow x + \eta \Sigma c / |A|`; nobody came: the model stays.

That needs one more message after a round, the step for those who were counted. One that gets lost
is repeated before the client's next request while the server holds the step of that round; a
client for which it is lost for good sends :math:`c = \Delta`.

It costs three models of memory on a client (its correction, and until the next turn what it sent
and the step), one more model to every participant and round, and on the server nothing while all
steps are confirmed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import Arrays, added, difference, is_averaged, wire_dtype
from ..checks import check, is_integer
from ..client.transform import Memory, Transform, Turn
from ..server.strategy import SumStrategy
from ..wire.parts import UPDATE, Parts
from .mifa import LAST

CORRECTION = "correction"


class CorrectedUpdate(Transform):
    """Sends `c = Δ − Δ_last + D`, or `Δ` where the step `D` is not known."""

    name = "mimic"
    remembers = True
    may_forget = True

    def contribute(self, update: Arrays, turn: Turn) -> Parts:
        """Return the corrected update."""
        return {UPDATE: added(turn.memory.get(CORRECTION), update)}

    def remember(self, memory: Memory, sent: Parts) -> Memory:
        """Return the update that was counted, without the correction that was sent with it."""
        return {LAST: difference(sent[UPDATE], memory.get(CORRECTION))}

    def receive(self, memory: Memory, delivered: Arrays) -> Memory:
        """Return the correction of the next update, `D − Δ_last`."""
        last = memory[LAST]  # without statistics, which no method sees
        return {CORRECTION: difference({name: delivered[name] for name in last}, last)}


class MimiC(SumStrategy):
    r"""Averages corrected updates: :math:`x \leftarrow x + \eta \Sigma c / |A|`.

    Clients need ``FedAUMod()``, and hold up to three models; the server holds none beside the model
    while all steps are confirmed. A reply is as long as FedAU's, and after a round every
    participant gets the step that was made, in a message of its own. A client that lost its memory
    goes on with an update that is not corrected.

    Parameters
    ----------
    num_clients : int
        `N`, the population of the objective.
    held_rounds : int (default: 10)
        The most rounds whose step the server holds for clients that have not confirmed it, a model
        each.
    **options
        Options of `SumStrategy`.
    """

    transform = CorrectedUpdate()

    def __init__(self, num_clients: int, *, held_rounds: int = 10, **options: Any) -> None:
        check("held_rounds", held_rounds, is_integer(held_rounds, 0), "an integer >= 0")
        super().__init__(num_clients, **options)
        self.held_rounds = int(held_rounds)

    def step(self, model: Arrays, sums: Parts | None, participants: int) -> Arrays:
        """Return the model moved by the mean of the corrected updates; nobody came: it stays."""
        if sums is None or participants == 0:
            return model
        return self.moved(model, sums[UPDATE], participants)

    def delivery(self, before: Arrays, after: Arrays) -> Arrays:
        """Return the step as it was applied."""
        return {
            name: np.subtract(after[name], value, dtype=wire_dtype(value.dtype))
            for name, value in before.items()
            if is_averaged(value.dtype)
        }
