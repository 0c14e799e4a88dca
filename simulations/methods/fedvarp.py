"""FedVARP: the mean of what participants changed, plus the mean of what all remember."""

from dataclasses import dataclass

from fedau_flwr import FedVARP
from simulations.methods.base import GREEN, SumMethod, steps


@dataclass(frozen=True)
class FedVARPMethod(SumMethod):
    """Each client's last update stands in for it, and participants' changes are averaged."""

    name = "fedvarp"
    place = 4
    server = FedVARP
    style = GREEN
    step_sizes = steps(svhn=(0.1, 1), cifar10=(0.0562, 1), cifar100=(0.0316, 1.78),
                       cinic10=(0.0562, 1), synthetic=(0.178, 1))  # fmt: skip
