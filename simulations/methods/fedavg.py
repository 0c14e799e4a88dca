"""Flower's own FedAvg, as it is: no part of the plugin is in between."""

import logging
from dataclasses import dataclass
from typing import Any

from flwr.serverapp.strategy import FedAvg, Strategy

from simulations.methods.base import BROWN, Method
from simulations.tasks.base import steps


@dataclass(frozen=True)
class FedAvgMethod(Method):
    """Flower's own FedAvg: the mean of participants' models, weighted by their samples."""

    name = "fedavg"
    place = 7
    style = BROWN
    participates = False
    server_step = False
    secure = False
    step_sizes = steps(
        svhn=(0.0562, None),
        cifar10=(0.0562, None),
        cifar100=(0.0316, None),
        cinic10=(0.0562, None),
        synthetic=(0.178, None),
    )

    def strategy(self, **options: Any) -> Strategy:
        """Return Flower's strategy; it takes what comes, since a thin round is normal."""
        del options
        logger = logging.getLogger("flwr")
        level = logger.level
        # It warns about the evaluation that is left out, which here the round loop does.
        logger.setLevel(logging.ERROR)
        try:
            return FedAvg(
                fraction_evaluate=0.0,
                min_train_nodes=0,
                min_evaluate_nodes=0,
                min_available_nodes=0,
            )
        finally:
            logger.setLevel(level)
