"""FedStale: fresh updates weighted by participation, and stale ones of those who are away."""

from dataclasses import dataclass
from typing import Any

from fedau_flwr import FedAUWeighting, FedStale
from simulations.methods.base import OLIVE, Method, steps
from simulations.registry import parameter


@dataclass(frozen=True)
class FedStaleMethod(Method):
    """FedAU's weights on fresh updates, beta of the last ones of all; 0 stands for no cutoff K."""

    beta: float = parameter("in [0, 1]", lambda v: 0 <= v <= 1, 0.5)
    cutoff: int = parameter("0 or more", lambda v: v >= 0, 50)

    name = "fedstale"
    place = 9
    learns = True
    style = OLIVE
    step_sizes = steps(svhn=(0.1, 1.78), cifar10=(0.1, 1), cifar100=(0.0562, 1.78),
                       cinic10=(0.1, 1), synthetic=(0.316, 1))  # fmt: skip

    def strategy(self, **options: Any) -> FedStale:
        """Return the server's half, which keeps the mean of what clients remember."""
        return FedStale(beta=self.beta, **options)

    def weighting(self, probability: float | None = None) -> FedAUWeighting:
        """Return FedAU's weighting."""
        return FedAUWeighting(self.cutoff or None)
