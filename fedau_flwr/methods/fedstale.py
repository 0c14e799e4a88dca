r"""FedStale: fresh updates weighted by participation, stale ones in between, over two sums.

A client holds :math:`h`, its last update that was counted, and sends
:math:`\omega (\Delta - \beta h)` and :math:`c = \Delta - h`. The server moves by
:math:`x \leftarrow x + \eta (\beta H + \Sigma_1 / N)`, also in rounds in which nobody came, then
:math:`H \leftarrow H + \Sigma_2 / N`, the mean of all :math:`h`.

It costs two models of memory on a client (its last update, and what it sent until that is known to
be counted), one on the server, and replies of two models instead of one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..arrays import Arrays, added, difference, moved, scaled
from ..checks import check, is_number
from ..client.transform import Transform, Turn
from ..wire.parts import UPDATE, Parts
from .mifa import LAST, MemoryStrategy

CHANGE = "change"


@dataclass(frozen=True)
class StaleUpdate(Transform):
    """Sends `ω (Δ − βh)` and `c = Δ − h`; remembers `h + c`, with `c` as it was sent."""

    beta: float

    name = "fedstale"
    parts = (UPDATE, CHANGE)
    remembers = True
    sums = ((LAST, CHANGE),)
    recalled = (CHANGE,)

    def __post_init__(self) -> None:
        check("beta", self.beta, is_number(self.beta, 0, 1), "in [0, 1]")

    def contribute(self, update: Arrays, turn: Turn) -> Parts:
        """Return the weighted fresh part, and the change against what was counted last."""
        last = turn.memory.get(LAST)
        fresh = difference(update, scaled(last, self.beta)) if last else update
        return {UPDATE: scaled(fresh, turn.weight), CHANGE: difference(update, last)}


class FedStale(MemoryStrategy):
    r"""Lets stale updates stand in for absent clients, as far as :math:`\beta` says.

    :math:`x \leftarrow x + \eta (\beta H + \Sigma_1 / N)`, also in rounds in which nobody came,
    then :math:`H \leftarrow H + \Sigma_2 / N`. With :math:`\beta = 0` it is `FedAU`.

    Clients need ``FedAUMod()``, whose weights it uses. A client holds two models, the server one
    beside the model; a reply is twice as long as FedAU's. A client that lost its memory cannot go
    on, since its last update is still in :math:`H`: give it a ``fedau-state-dir``.

    Parameters
    ----------
    num_clients : int
        `N`, the population of the objective.
    beta : float (default: 0.5)
        How much stale updates count, in [0, 1].
    **options
        Options of `SumStrategy`.
    """

    def __init__(self, num_clients: int, beta: float = 0.5, **options: Any) -> None:
        super().__init__(num_clients, **options)
        self.transform = StaleUpdate(beta)
        self.beta = beta

    def step(self, model: Arrays, sums: Parts | None, participants: int) -> Arrays:
        """Move along the weighted fresh updates and the stale mean, then update that."""
        self.prepare(model)
        direction = scaled(self.mean, self.beta)
        if sums is not None:
            fresh = {n: v / v.dtype.type(self.num_clients) for n, v in sums[UPDATE].items()}
            direction = added(direction, fresh)
            self.remember(sums[CHANGE])
        return moved(model, direction, self.server_learning_rate)

    def settings(self) -> dict[str, object]:
        """Return what `summary` says about the method."""
        return {"Beta": self.beta, **super().settings()}
