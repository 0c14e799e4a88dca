"""What a simulation and a deployment have in common: strategy, log, beginning and end."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from flwr.serverapp.strategy import Strategy

from fedau_flwr import RoundLoop, SecureSum
from fedau_flwr.availability import AvailabilityGrid
from fedau_flwr.wire.records import encode
from simulations.config import LEAST_SECURE, RunConfig
from simulations.nodes.resident import initial_parameters
from simulations.runs.directory import RunDirectory

log = logging.getLogger("flwr.simulations")

TIMEOUT = 24 * 3600.0
"""Seconds after which a simulated node is given up; a slow machine is no failure."""


def train(
    config: RunConfig, prepare: Callable[[RunDirectory], RoundLoop], *, every_round: bool = False
) -> RunDirectory:
    """Run the loop that `prepare` makes, and return its directory; it also says what failed."""
    run = RunDirectory.open(config)
    with run_log(run.log_file, every_round=every_round):
        try:
            loop = prepare(run)
        except (ValueError, OSError) as error:
            run.finish("failed", 0, str(error))
            raise
        log.info("The results go to %s.", run.path)
        loop.run(encode(initial_parameters(config.task, seed=config.seed)), config.rounds)
    return run


@contextmanager
def run_log(path: Path, *, every_round: bool) -> Iterator[None]:
    """Copy Flower's log to `path`.

    The lines that strategies write in every round are left out, but for our own if `every_round`.
    """
    flower, rounds = logging.getLogger("flwr"), logging.getLogger("flwr.fedau")
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setLevel(logging.INFO)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    level = rounds.level
    flower.addHandler(handler)
    flower.addFilter(_worth_a_line)
    if not every_round:
        rounds.setLevel(logging.WARNING)
    try:
        yield
    finally:
        flower.removeHandler(handler)
        flower.removeFilter(_worth_a_line)
        rounds.setLevel(level)
        handler.close()


def _worth_a_line(record: logging.LogRecord) -> bool:
    of_every_round = ("%s: Received", "configure_train:", "aggregate_train:")
    return not str(record.msg).startswith(of_every_round)


def build_strategy(config: RunConfig, grid: AvailabilityGrid | None = None) -> Strategy:
    """Return the strategy of a run over the nodes of `grid`, which must be known by now.

    Without one it is for a real federation, whose loop waits for somebody to be there at all.
    """
    options: dict[str, Any] = {
        "num_clients": config.clients,
        "server_learning_rate": config.global_lr,
    }
    timeout = TIMEOUT if grid else config.round_deadline
    if config.secure_sum:
        options["summation"] = SecureSum(
            min_cohort=LEAST_SECURE, exchange_timeout=timeout, seed=config.seed
        )
    if grid is None:
        options["round_timeout"] = timeout
        if config.groups:
            options |= {"groups": config.group_sizes, **config.algorithm.group_options()}
    else:
        if config.secure_sum:
            config.check_nodes(len(grid.everyone().get_node_ids()))
        options["roster"] = grid.roster
    return config.algorithm.strategy(**options)
