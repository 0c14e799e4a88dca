"""MIFA: the mean of the last updates of all clients, whoever came."""

from dataclasses import dataclass
from typing import Any

from fedau_flwr import MIFA
from simulations.methods.base import PINK, Method, steps


@dataclass(frozen=True)
class MIFAMethod(Method):
    """Each client's last update stands in for it while it is away."""

    name = "mifa"
    place = 5
    style = PINK
    step_sizes = steps(svhn=(0.1, 1), cifar10=(0.0562, 1), cifar100=(0.0316, 1.78),
                       cinic10=(0.0562, 1), synthetic=(0.178, 1))  # fmt: skip

    def strategy(self, **options: Any) -> MIFA:
        """Return the server's half, which keeps the mean of what clients remember."""
        return MIFA(**options)
