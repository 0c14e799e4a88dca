"""FedVARP: the mean of what participants changed, plus the mean of what all remember."""

from dataclasses import dataclass
from typing import Any

from fedau_flwr import FedVARP
from simulations.methods.base import GREEN, Method, steps


@dataclass(frozen=True)
class FedVARPMethod(Method):
    """Each client's last update stands in for it, and participants' changes are averaged."""

    name = "fedvarp"
    place = 4
    style = GREEN
    step_sizes = steps(svhn=(0.1, 1), cifar10=(0.0562, 1), cifar100=(0.0316, 1.78),
                       cinic10=(0.0562, 1), synthetic=(0.178, 1))  # fmt: skip

    def strategy(self, **options: Any) -> FedVARP:
        """Return the server's half, which keeps the mean of what clients remember."""
        return FedVARP(**options)
