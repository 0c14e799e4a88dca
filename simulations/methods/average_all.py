"""Averaging over all clients: those who did not come count as zero updates."""

from dataclasses import dataclass

from simulations.methods.base import ORANGE, SumMethod, steps


@dataclass(frozen=True)
class AverageAll(SumMethod):
    """The sum of the updates of those who came, divided by the number of all clients."""

    place = 3
    average = True
    style = ORANGE
    step_sizes = steps(svhn=(0.1, 10), cifar10=(0.1, 10), cifar100=(0.0562, 10),
                       cinic10=(0.1, 10), synthetic=(0.316, 5.62))  # fmt: skip
