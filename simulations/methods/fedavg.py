"""Flower's own FedAvg, as it is: no part of the plugin is in between."""

from dataclasses import dataclass
from typing import Any

from flwr.serverapp.strategy import FedAvg

from simulations.methods.base import BROWN, Method, steps


@dataclass(frozen=True)
class FedAvgMethod(Method):
    """Flower's own FedAvg: the mean of participants' models, weighted by their samples."""

    name = "fedavg"
    place = 7
    average = True
    style = BROWN
    participates = False
    server_step = False
    secure = False
    step_sizes = steps(svhn=(0.0562, None), cifar10=(0.0562, None), cifar100=(0.0316, None),
                       cinic10=(0.0562, None), synthetic=(0.178, None))  # fmt: skip

    def strategy(self, **options: Any) -> FedAvg:
        """Return Flower's strategy; it takes what comes, since a thin round is normal."""
        strategy = FedAvg(min_train_nodes=0, min_evaluate_nodes=0, min_available_nodes=0)
        # The round loop evaluates. Not handed to the constructor, which would warn about it.
        strategy.fraction_evaluate = 0.0
        return strategy
