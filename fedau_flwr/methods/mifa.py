r"""MIFA, memory-augmented impatient federated averaging, over one sum.

Its server holds the last update of every client, and moves along their mean. Here the client holds
its own, :math:`y`, and sends the change :math:`c = \Delta - y`, so that the server needs the sum:
:math:`G \leftarrow G + \Sigma c / N`, then :math:`x \leftarrow x + \eta G`, also in rounds in which
nobody came. It costs two models on a client (its last update, and what it sent until that is known
to be counted), and one on the server.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..arrays import Arrays, moved, zeros
from ..client.transform import Transform, Turn
from ..server.strategy import SumStrategy
from ..wire.parts import UPDATE, Parts

LAST = "last"


class UpdateChange(Transform):
    """Sends `c = Δ − y` and remembers `y + c`, with `c` as it was sent and once it is counted."""

    name = "change"
    remembers = True
    sums = ((LAST, UPDATE),)

    def contribute(self, update: Arrays, turn: Turn) -> Parts:
        """Return the change against what was counted last."""
        if last := turn.memory.get(LAST):
            with np.errstate(invalid="ignore", over="ignore"):
                for name, value in update.items():
                    np.subtract(value, last[name], out=value)
        return {UPDATE: update}


class MemoryStrategy(SumStrategy):
    """Keeps the mean of what all clients have sent, those that never came included."""

    transform: Transform = UpdateChange()

    def __init__(self, num_clients: int, **options: Any) -> None:
        super().__init__(num_clients, **options)
        self.mean: Arrays = {}

    def prepare(self, model: Arrays) -> None:
        """Begin with a mean of zero."""
        self.mean = self.mean or zeros(model)

    def remember(self, total: Arrays) -> None:
        """Let the sum of the changes enter the mean."""
        for name, value in total.items():
            share = np.asarray(value / value.dtype.type(self.num_clients))
            # A checkpoint may still hold the arrays of the mean before, so they stay as they are.
            self.mean[name] = np.add(self.mean[name], share, out=share)

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint needs beside the model."""
        return {**super().state_dict(), "mean": dict(self.mean)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a checkpoint."""
        super().load_state_dict(state)
        self.mean = dict(state["mean"])


class MIFA(MemoryStrategy):
    r"""Moves along the mean of all clients' last updates.

    :math:`G \leftarrow G + \Sigma c / N`, then :math:`x \leftarrow x + \eta G`, also in rounds
    in which nobody came. Takes the options of `SumStrategy`.
    """

    def step(self, model: Arrays, sums: Parts | None, participants: int) -> Arrays:
        """Update the memory and move along it."""
        self.prepare(model)
        if sums is not None:
            self.remember(sums[UPDATE])
        return moved(model, self.mean, self.server_learning_rate)
