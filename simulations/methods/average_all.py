"""Averaging over all clients: those who did not come count as zero updates."""

from dataclasses import dataclass
from typing import Any

from fedau_flwr import FedAU
from simulations.methods.base import ORANGE, Method, steps


@dataclass(frozen=True)
class AverageAll(Method):
    """The sum of the updates of those who came, divided by the number of all clients."""

    place = 3
    average = True
    style = ORANGE
    step_sizes = steps(svhn=(0.1, 10), cifar10=(0.1, 10), cifar100=(0.0562, 10),
                       cinic10=(0.1, 10), synthetic=(0.316, 5.62))  # fmt: skip

    def strategy(self, **options: Any) -> FedAU:
        """Return the server's half: the sum over all clients."""
        return FedAU(**options)
