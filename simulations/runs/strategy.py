"""The strategy of a run: that of its method, with the options that the run's settings mean."""

from __future__ import annotations

from typing import Any

from flwr.serverapp.strategy import Strategy

from fedau_flwr import SecureSum
from fedau_flwr.availability import AvailabilityGrid
from simulations.config import LEAST_SECURE, RunConfig

TIMEOUT = 24 * 3600.0
"""Seconds after which a simulated node is given up; a slow machine is no failure."""


def build_strategy(config: RunConfig, grid: AvailabilityGrid | None = None) -> Strategy:
    """Return the strategy of a run over the nodes of `grid`, which must be known by now.

    Without one it is for a real federation, whose loop waits for somebody to be there at all.
    """
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
            options |= {"groups": config.group_sizes, **config.algorithm.group_options()}
    else:
        if config.secure_sum:
            config.check_nodes(len(grid.everyone().get_node_ids()))
        options["roster"] = grid.roster
    return config.algorithm.strategy(**options)
