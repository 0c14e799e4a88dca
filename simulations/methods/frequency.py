"""Frequency weighting: every update weighs as much as its client has been rare so far."""

from dataclasses import dataclass

from fedau_flwr import FrequencyWeighting
from simulations.methods.base import PURPLE, SumMethod, steps


@dataclass(frozen=True)
class Frequency(SumMethod):
    """Weights t/m from the m of t rounds in which a client took part."""

    place = 8
    learns = True
    style = PURPLE
    step_sizes = steps(svhn=(0.1, 1), cifar10=(0.1, 1), cifar100=(0.0562, 1.78),
                       cinic10=(0.1, 1), synthetic=(0.178, 1))  # fmt: skip

    def weighting(self, probability: float | None = None) -> FrequencyWeighting:
        """Return the weighting by frequency."""
        return FrequencyWeighting()
