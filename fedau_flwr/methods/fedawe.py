r"""FedAWE: clients with models of their own, which count for the rounds that they have missed.

A client trains from its own model :math:`x_i`, and sends :math:`x_i - x` and
:math:`(t - \tau_i) \Delta_i`, with :math:`\tau_i` its last counted round. The server moves by
:math:`x \leftarrow x + (\Sigma_1 + \eta \Sigma_2) / |A|`; afterwards the participants, and only
they, take :math:`x_i \leftarrow x`. Nobody came: the model stays.

That needs one more message after a round, the new model for those who were counted. Whoever does
not get it, or comes for the first time, starts from the model that comes with its request.

It costs two models of memory on a client (its own model, and the delivered one until the next
turn), replies of two models instead of one, and one more model to every participant and round.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..arrays import Arrays, difference, is_averaged, moved, scaled, wire_dtype
from ..checks import check_positive
from ..client.transform import Memory, Transform, Turn
from ..privacy.clipping import clip
from ..server.strategy import SumStrategy
from ..wire.parts import UPDATE, Parts

OWN = "own"
SHIFT = "shift"


class OwnModelUpdate(Transform):
    """Trains from the client's own model; sends `x_i − x` and `(t − τ) Δ`."""

    name = "fedawe"
    parts = (SHIFT, UPDATE)
    remembers = True
    recalled = ()
    may_forget = True

    def start(self, model: Arrays, turn: Turn) -> Arrays:
        """Return the client's own model, or that of the request if it has none."""
        return {**model, **own} if (own := turn.memory.get(OWN)) else model

    def contribute(self, update: Arrays, turn: Turn) -> Parts:
        """Return how far the client's own model is from the server's, and the amplified update."""
        model, own = turn.model, self.start(turn.model, turn)
        wide = {n: v.astype(wire_dtype(v.dtype)) for n, v in own.items() if is_averaged(v.dtype)}
        return {SHIFT: difference(wide, model), UPDATE: scaled(update, turn.round - turn.counted)}

    def remember(self, memory: Memory, sent: Parts) -> Memory:
        """Return nothing: a model that was counted is not the client's own any more."""
        return {}

    def receive(self, memory: Memory, delivered: Arrays) -> Memory:
        """Return the model that came out of the round, which is the client's own from now on."""
        return {OWN: delivered}


class FedAWE(SumStrategy):
    r"""Averages clients' own models, and updates by the rounds since their last turn.

    :math:`x \leftarrow x + (\Sigma_1 + \eta \Sigma_2) / |A|`: the mean of the participants' models
    plus :math:`\eta` times that of their amplified updates; nobody came: it stays.

    Clients need ``FedAUMod()``, and hold two models; the server holds none beside the model. A
    reply is twice as long as FedAU's, and after a round every participant gets the new model in a
    message of its own. A client that lost its memory goes on from the model of its next request.

    Parameters
    ----------
    num_clients : int
        `N`, the population of the objective.
    clip_norm : float | None (default: None)
        Largest L2 norm of the mean of the amplified updates; the authors' program has 0.5.
    track_mean : bool (default: False)
        Keep `mean_model`, the mean of all clients' models, which the paper evaluates. It is exact
        while every delivery arrives, as in a simulation, and costs the server two models.
    **options
        Options of `SumStrategy`.
    """

    transform = OwnModelUpdate()

    def __init__(
        self,
        num_clients: int,
        *,
        clip_norm: float | None = None,
        track_mean: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(num_clients, **options)
        if clip_norm is not None:
            check_positive("clip_norm", clip_norm)
        self.clip_norm = clip_norm
        self.track_mean = track_mean
        self.mean_model: Arrays = {}
        self.first_model: Arrays = {}
        self._seen: set[int] = set()

    def step(self, model: Arrays, sums: Parts | None, participants: int) -> Arrays:
        """Return the participants' mean model, moved by the mean of their amplified updates."""
        if self.track_mean and not self.mean_model:
            self.first_model = {n: np.array(v) for n, v in model.items() if is_averaged(v.dtype)}
            self.mean_model = {n: v.astype(np.float64) for n, v in self.first_model.items()}
        if sums is None or participants == 0:
            return model
        fresh: Arrays = {name: value / participants for name, value in sums[UPDATE].items()}
        if self.clip_norm is not None:
            clipped, _ = clip([*fresh.values()], self.clip_norm)
            fresh = dict(zip(fresh, clipped, strict=True))
        rate = self.server_learning_rate
        step = {n: v / v.dtype.type(participants) + v.dtype.type(rate) * fresh[n]
                for n, v in sums[SHIFT].items()}  # fmt: skip
        after = moved(model, step, 1.0)
        if self.track_mean:
            self._track(model, after, sums[SHIFT], participants)
        return after

    def _track(self, before: Arrays, after: Arrays, shift: Arrays, participants: int) -> None:
        """Let the participants' models become `after` in the mean over all clients."""
        counted = {n for n, last in self.ledger.counted.items() if last == self.ledger.round}
        new = len(counted - self._seen)
        self._seen |= counted
        for name, mean in self.mean_model.items():
            x, first = before[name].astype(np.float64), self.first_model[name]
            change = participants * (after[name] - x) - shift[name] + new * (x - first)
            self.mean_model[name] = mean + change / self.num_clients

    def delivery(self, before: Arrays, after: Arrays) -> Arrays:
        """Return the new model."""
        return after

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint needs beside the model."""
        own = {"mean": self.mean_model, "first": self.first_model, "seen": sorted(self._seen)}
        return {**super().state_dict(), "own_models": own}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a checkpoint."""
        super().load_state_dict(state)
        own = state["own_models"]
        self.mean_model, self.first_model = dict(own["mean"]), dict(own["first"])
        self._seen = {*own["seen"]}

    def settings(self) -> dict[str, object]:
        """Return what `summary` says about the method."""
        return {"Clip norm": self.clip_norm, **super().settings()}
