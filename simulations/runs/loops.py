"""The round loops of a run: over nodes that play clients which come and go, and over real ones.

A simulation ends with one sentence when a node crashes, since its absence would bias the result
without anybody noticing.

A round of a deployment asks the nodes that are connected and ends with the last reply or at
``round-deadline``; a node that fails or is late is an absence, and while nobody is there, no round
begins. The run's directory has what an experiment's has, as far as a server can know it, and
``metrics.prom``. With ``resume`` the training goes on from the directory's checkpoint, and nodes go
back to what they knew then.
"""

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import ConfigRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy

from fedau_flwr import RoundLoop, SecureSum
from fedau_flwr.availability import AvailabilityGrid
from fedau_flwr.files import save_arrays
from fedau_flwr.server.callbacks import (
    Callback,
    Checkpoints,
    JsonLines,
    Progress,
    PrometheusTextfile,
    StopOnDivergence,
    StopOnRequest,
    WaitForNodes,
)
from fedau_flwr.wire.records import decode_all
from simulations.config import LEAST_SECURE, RunConfig
from simulations.nodes.client_states import flush, make_states
from simulations.nodes.deployed_data import server_test_set
from simulations.nodes.worker import LR, STATES
from simulations.runs.directory import RunDirectory
from simulations.runs.experiment import Experiment
from simulations.runs.measurement import TIMEOUT, Measurement, check_replies, measure
from simulations.runs.node_record import NodeRecord
from simulations.runs.participation import ParticipationRecord
from simulations.runs.reports import Outcome, Reports, RoundTimes
from simulations.tasks import DataError, Part

log = logging.getLogger("flwr.simulations")


def simulation_loop(
    experiment: Experiment, grid: AvailabilityGrid, run: RunDirectory, callbacks: Iterable[Callback]
) -> RoundLoop:
    """Return the loop of an experiment; `callbacks` come before those that all experiments have."""
    config = experiment.config

    def measured(loop: RoundLoop) -> Measurement:
        # Of one node per client, as many as can work at a time; hosts are that many.
        shards = None if config.clients_per_node == 0 else os.cpu_count()
        last = loop.round == loop.rounds
        arrays = config.algorithm.evaluated(loop.strategy, loop.arrays)
        return measure(grid.everyone(), config.task, arrays, samples=last, shards=shards)

    advice = f"go on with `fedau resume {run.path}`"
    record, times = ParticipationRecord(experiment, grid, run.raster_file), RoundTimes()
    progress = Progress(every=None, file=run.progress_file)
    return RoundLoop(
        build_strategy(config, grid, run.path),
        grid,
        [
            *callbacks,
            record,
            Reports(run, config, measured, progress, record),
            StopOnDivergence(),
            StopOnRequest(run.stop_file, signals=(), advice=advice),
            times,
            JsonLines(run.rounds_file),
            progress,
            SimulationCheckpoints(run, config, record, times),
            Outcome(run),
        ],
        train_config=_train_config(config, {STATES: make_states(run.states)}),
        timeout=TIMEOUT,
        check_replies=check_replies,
    )


def deployment_loop(
    grid: Grid, config: RunConfig, run: RunDirectory, callbacks: Iterable[Callback]
) -> RoundLoop:
    """Return the loop of a training on a deployment."""
    test = _open_test_set(config)

    def measured(loop: RoundLoop) -> Measurement:
        if test is None:
            return Measurement(config.task, {})
        # torch takes seconds and memory, which the server of a simulation does without.
        from simulations.nodes.evaluator import Evaluator  # noqa: PLC0415

        evaluator = Evaluator(config.task, device=config.device, kernel=config.kernel)
        # Nobody but the nodes themselves sees training samples.
        return Measurement(config.task, {"test": evaluator.evaluate(decode_all(loop.arrays), test)})

    progress = Progress(every=None, file=run.progress_file)
    advice = f"go on with the same `flwr run` and 'run-dir=\"{run.path}\" resume=true' in its run "
    advice += f"config, or after `fedau deploy local` with `fedau resume {run.path}`"
    # The signals are Flower's, which ends the app in its own way.
    request = StopOnRequest(run.stop_file, signals=(), advice=advice)
    return RoundLoop(
        build_strategy(config, directory=run.path),
        grid,
        [
            *callbacks,
            WaitForNodes(LEAST_SECURE if config.secure_sum else 1, request=request),
            Reports(run, config, measured, progress),
            StopOnDivergence(),
            request,
            PrometheusTextfile(run.path / "metrics.prom"),
            JsonLines(run.rounds_file),
            NodeRecord(run, config),
            progress,
            Checkpoints(run.path, every=config.checkpoint_rounds, resume=config.resume),
            Outcome(run),
        ],
        train_config=_train_config(config, {}),
        timeout=config.round_deadline,
    )


def _train_config(config: RunConfig, more: Mapping[str, str]) -> Callable[[int], ConfigRecord]:
    def of_round(number: int) -> ConfigRecord:
        return ConfigRecord({LR: config.local_lr_in(number - 1), **more})

    return of_round


def _open_test_set(config: RunConfig) -> Part | None:
    try:
        return server_test_set(config)
    except DataError as error:
        log.warning("The model will not be evaluated, since the server has no test data: %s", error)
        return None


def build_strategy(
    config: RunConfig, grid: AvailabilityGrid | None = None, directory: Path | None = None
) -> Strategy:
    """Return the strategy of a run over the nodes of `grid`, which must be known by now.

    Without one it is for a real federation, whose loop waits for somebody to be there at all. What
    privacy must not forget is kept in `directory`.
    """
    options: dict[str, Any] = {"num_clients": config.clients}
    options["server_learning_rate"] = config.global_lr
    if (privacy := config.protection.settings(config.rounds, directory)) is not None:
        options["privacy"] = privacy
    timeout = TIMEOUT if grid else config.round_deadline
    if config.secure_sum:
        options["summation"] = SecureSum(
            min_cohort=LEAST_SECURE, exchange_timeout=timeout, seed=config.seed,
            roster=config.secure_roster or None,
        )  # fmt: skip
    if grid is None:
        options["round_timeout"] = timeout
        if config.groups:
            options |= {"groups": config.group_sizes, **config.algorithm.group_options()}
    else:
        if config.secure_sum:
            config.check_nodes(len(grid.everyone().get_node_ids()))
        options["roster"] = grid.roster
    return config.algorithm.strategy(**options)


class SimulationCheckpoints(Checkpoints):
    """Checkpoints with what belongs to them: client states, times.npz, participation.npz."""

    def __init__(
        self, run: RunDirectory, config: RunConfig, record: ParticipationRecord, times: RoundTimes
    ) -> None:
        super().__init__(run.path, every=config.checkpoint_rounds, resume=config.resume)
        self._run, self._record, self._times = run, record, times

    def write(self, state: Mapping[str, Any]) -> None:
        """Make everything durable that a resumed run needs."""
        flush(self._run.states)
        save_arrays(self._run.times_file, self._times.arrays())
        save_arrays(self._run.participation_file, self._record.arrays())
        super().write(state)

    def read(self) -> dict[str, Any]:
        """Return the last checkpoint, also if version 0.1 wrote it."""
        state = super().read()
        if "callbacks" not in state:
            record = state["record"]
            now = (state["round"], int(record["participated"].sum()), int(record["counted"].sum()))
            state["callbacks"] = {
                "ParticipationRecord": record,
                "Reports": {"since": np.subtract(now, record["reported"]).tolist()},
                "StopOnDivergence": {"uncounted": state["uncounted"]},
            }
        return state
