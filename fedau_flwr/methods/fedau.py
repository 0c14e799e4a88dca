r"""FedAU, and with constant weights plain averaging and known participation statistics.

The client weights its update by an estimate :math:`\omega` of one over its participation
probability, made from its own history (`FedAUWeighting`), and sends :math:`\omega \Delta`; the
server adds up: :math:`x \leftarrow x + \frac{\eta}{N} \sum_n \omega_n \Delta_n`. It costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..arrays import Arrays
from ..client.transform import Transform, Turn
from ..server.groups import Groups
from ..server.strategy import SumStrategy
from ..wire.parts import UPDATE, Parts


class WeightedUpdate(Transform):
    """Sends `ω Δ`."""

    name = "weighted"

    def contribute(self, update: Arrays, turn: Turn) -> Parts:
        """Return the update times the client's weight, in its own place."""
        if turn.weight != 1.0:
            with np.errstate(invalid="ignore", over="ignore"):
                for value in update.values():
                    np.multiply(value, value.dtype.type(turn.weight), out=value)
        return {UPDATE: update}


class FedAU(SumStrategy):
    r"""Adds up weighted updates: :math:`x \leftarrow x + \frac{\eta}{N} \sum_n \omega_n \Delta_n`.

    Which weights these are, is the clients' to say: `FedAUMod()` has FedAU's own, with
    `UnitWeighting()` this is plain averaging, with `InverseProbabilityWeighting(p)` it uses known
    participation statistics.

    Parameters
    ----------
    num_clients : int
        `N`, the population of the objective: given, never guessed from who is connected.
    divisor : str (default: "clients")
        "clients" divides the sum by `N`, "participants" by the number of counted clients.
    groups : Mapping[str, int] | None (default: None)
        Sizes of groups of clients that share a history; see `fedau_flwr.server.groups`.
    group_cutoff : int | None (default: 50)
        The cutoff of the groups' histories.
    **options
        Options of `SumStrategy`.
    """

    transform = WeightedUpdate()

    def __init__(
        self,
        num_clients: int,
        *,
        divisor: str = "clients",
        groups: Mapping[str, int] | None = None,
        group_cutoff: int | None = 50,
        **options: Any,
    ) -> None:
        check_divisor(divisor)
        self.divisor = divisor
        super().__init__(num_clients, **options)
        if groups and self.summation.secure:
            raise ValueError(
                f"groups is {dict(groups)!r}, but must be empty with "
                f"{type(self.summation).__name__}: a group's label would leave the client in clear."
            )
        self.groups = Groups(groups or {}, group_cutoff)

    def step(self, model: Arrays, sums: Parts | None, participants: int) -> Arrays:
        """Return the model moved by the mean of the sum; nobody came: it stays."""
        if sums is None or participants == 0:
            return model
        return self.moved(model, sums[UPDATE], self.divide_by(participants))

    def divide_by(self, participants: int) -> int:
        """Return what the sum of a round is divided by."""
        return self.num_clients if self.divisor == "clients" else participants

    def settings(self) -> dict[str, object]:
        """Return what `summary` says about the method."""
        return {"Divisor": self.divisor, **super().settings()}


def check_divisor(divisor: str) -> None:
    """Raise ValueError unless a divisor is one of the two that there are."""
    if divisor not in {"clients", "participants"}:
        raise ValueError(f"divisor is {divisor!r}, but must be 'clients' or 'participants'.")
