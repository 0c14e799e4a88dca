"""A deployment: the round loop over nodes that are really there, until the last round.

A round asks the nodes that are connected and ends with the last reply or at ``round-deadline``; a
node that fails or is late is an absence, and while nobody is there, no round begins.
The run's directory has what an experiment's has, as far as a server can know it, and
``metrics.prom``. With ``resume`` the training goes on from the directory's checkpoint, and nodes go
back to what they knew then.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace

from flwr.app import ConfigRecord
from flwr.serverapp import Grid

from fedau_flwr import RoundLoop
from fedau_flwr.server.callbacks import (
    Callback,
    Checkpoints,
    Progress,
    PrometheusTextfile,
    StopOnDivergence,
    StopOnRequest,
    WaitForNodes,
)
from fedau_flwr.wire.records import decode_all
from simulations.config import LEAST_SECURE, ConfigError, RunConfig
from simulations.nodes.deployed_data import server_test_set
from simulations.nodes.evaluator import Evaluator
from simulations.nodes.worker import LR
from simulations.runs.directory import RunDirectory
from simulations.runs.measurement import Measurement
from simulations.runs.reports import Outcome, Reports
from simulations.runs.training import build_strategy, train
from simulations.tasks import DataError, Part

log = logging.getLogger("flwr.simulations")


def run_deployment(
    grid: Grid, config: RunConfig, callbacks: Iterable[Callback] = ()
) -> RunDirectory:
    """Train with the nodes of `grid` and return the run's directory."""
    if not config.algorithm.deployable:
        raise ConfigError(
            f"method is {config.method!r}, but must be another one on a deployment, where nobody "
            "knows what it needs."
        )
    config = replace(config, pattern="deployment", reply_loss=0.0)

    def prepare(run: RunDirectory) -> RoundLoop:
        check_population(grid, config)
        return deployment_loop(grid, config, run, callbacks)

    return train(config, prepare, every_round=True)


def deployment_loop(
    grid: Grid, config: RunConfig, run: RunDirectory, callbacks: Iterable[Callback]
) -> RoundLoop:
    """Return the loop of a training on a deployment."""
    test = _open_test_set(config)

    def train_config(number: int) -> ConfigRecord:
        return ConfigRecord({LR: config.local_lr * config.task.decay(number - 1)})

    def measured(loop: RoundLoop) -> Measurement:
        if test is None:
            return Measurement(config.task, {})
        evaluator = Evaluator(config.task, device=config.device)
        # Nobody but the nodes themselves sees training samples.
        return Measurement(config.task, {"test": evaluator.evaluate(decode_all(loop.arrays), test)})

    progress = Progress(every=None, file=run.progress_file)
    # The signals are Flower's, which ends the app in its own way.
    request = StopOnRequest(
        run.stop_file,
        signals=(),
        advice="go on with the same `flwr run` and "
        f"'run-dir=\"{run.path}\" resume=true' in its run config, or after `fedau deploy local` "
        f"with `fedau resume {run.path}`",
    )
    return RoundLoop(
        build_strategy(config),
        grid,
        [
            *callbacks,
            WaitForNodes(LEAST_SECURE if config.secure_sum else 1, request=request),
            Reports(run, config, measured, progress),
            StopOnDivergence(),
            request,
            PrometheusTextfile(run.path / "metrics.prom"),
            progress,
            Checkpoints(run.path, every=config.checkpoint_rounds, resume=config.resume),
            Outcome(run),
        ],
        train_config=train_config,
        timeout=config.round_deadline,
    )


def check_population(grid: Grid, config: RunConfig) -> None:
    """Refuse a number of clients that is smaller than what is connected already."""
    connected = len(list(grid.get_node_ids()))
    if connected > config.clients:
        raise ConfigError(
            f"clients is {config.clients}, but must be at least {connected}, the number of nodes "
            "that are connected."
        )
    log.info(
        "%d of %d clients are connected. The number of all clients is the run config's `clients`: "
        "too large a number makes the steps too small.",
        connected,
        config.clients,
    )


def _open_test_set(config: RunConfig) -> Part | None:
    try:
        return server_test_set(config)
    except DataError as error:
        log.warning("The model will not be evaluated, since the server has no test data: %s", error)
        return None
