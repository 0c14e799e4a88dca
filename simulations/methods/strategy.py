"""The server's side of the seven methods."""

from __future__ import annotations

import logging
from typing import Any

from flwr.serverapp.strategy import FedAvg, Strategy

from fedau_flwr import MIFA, FedAU, FedVARP, SecureSum
from fedau_flwr.availability import AvailabilityGrid
from simulations.config import LEAST_SECURE, RunConfig

TIMEOUT = 24 * 3600.0
"""Seconds after which a simulated node is given up; a slow machine is no failure."""


def build_strategy(config: RunConfig, grid: AvailabilityGrid | None = None) -> Strategy:
    """Return the strategy of a run over the nodes of `grid`, which must be known by now.

    Without one it is for a real federation, whose loop waits for somebody to be there at all.
    """
    if config.method == "fedavg":
        return _built_in()
    options: dict[str, Any] = {
        "num_clients": config.clients,
        "server_learning_rate": config.global_lr,
    }
    if config.secure_sum:
        timeout = TIMEOUT if grid else config.round_deadline
        options["summation"] = SecureSum(
            min_cohort=LEAST_SECURE, exchange_timeout=timeout, seed=config.seed
        )
    if grid is None:
        options["round_timeout"] = config.round_deadline
        if config.groups:
            options |= {"groups": config.group_sizes, "group_cutoff": config.cutoff or None}
    else:
        if config.secure_sum:
            config.check_nodes(len(grid.everyone().get_node_ids()))
        options["roster"] = grid.roster
    if config.method == "mifa":
        return MIFA(**options)
    if config.method == "fedvarp":
        return FedVARP(**options)
    participants = config.method == "average-participating"
    return FedAU(**options, divisor="participants" if participants else "clients")


def _built_in() -> FedAvg:
    """Return Flower's own FedAvg as it is; it takes what comes, since a thin round is normal."""
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
