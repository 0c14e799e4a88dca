"""Averaging participants: the mean over those who came, biased towards frequent clients."""

from dataclasses import dataclass
from typing import Any

from fedau_flwr import FedAU
from simulations.methods.base import VERMILION, Method, steps


@dataclass(frozen=True)
class AverageParticipating(Method):
    """The mean of the updates of those who came."""

    place = 2
    average = True
    style = VERMILION
    step_sizes = steps(svhn=(0.0562, 1.78), cifar10=(0.0562, 1.78), cifar100=(0.0316, 1.78),
                       cinic10=(0.0562, 1.78), synthetic=(0.178, 1))  # fmt: skip

    def strategy(self, **options: Any) -> FedAU:
        """Return the server's half: the sum over participants."""
        return FedAU(**options, divisor="participants")
