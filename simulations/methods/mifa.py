"""MIFA: the mean of the last updates of all clients, whoever came."""

from dataclasses import dataclass

from fedau_flwr import MIFA
from simulations.methods.base import PINK, SumMethod, steps


@dataclass(frozen=True)
class MIFAMethod(SumMethod):
    """Each client's last update stands in for it while it is away."""

    name = "mifa"
    place = 5
    server = MIFA
    style = PINK
    step_sizes = steps(svhn=(0.1, 1), cifar10=(0.0562, 1), cifar100=(0.0316, 1.78),
                       cinic10=(0.0562, 1), synthetic=(0.178, 1))  # fmt: skip
