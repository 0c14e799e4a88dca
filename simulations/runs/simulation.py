"""A simulation: the round loop over nodes that play clients which come and go.

A node that crashes ends the run with one sentence, since its absence would bias the result without
anybody noticing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from flwr.app import ConfigRecord
from flwr.serverapp.strategy import Strategy

from fedau_flwr import RoundLoop
from fedau_flwr.availability import AvailabilityGrid
from fedau_flwr.files import save_arrays
from fedau_flwr.server.callbacks import (
    Callback,
    Checkpoints,
    Progress,
    StopOnDivergence,
    StopOnRequest,
)
from simulations.config import RunConfig
from simulations.nodes.client_states import flush
from simulations.nodes.worker import LR, STATES
from simulations.runs.directory import RunDirectory
from simulations.runs.experiment import Experiment
from simulations.runs.measurement import Measurement, check_replies, measure
from simulations.runs.participation import ParticipationRecord
from simulations.runs.reports import Outcome, Reports, RoundTimes
from simulations.runs.training import TIMEOUT


def simulation_loop(
    experiment: Experiment,
    grid: AvailabilityGrid,
    strategy: Strategy,
    run: RunDirectory,
    callbacks: Iterable[Callback] = (),
) -> RoundLoop:
    """Return the loop of an experiment; `callbacks` come before those that all experiments have."""
    config, task = experiment.config, experiment.task

    def train_config(number: int) -> ConfigRecord:
        lr = config.local_lr * task.decay(number - 1)
        return ConfigRecord({LR: lr, STATES: str(run.states)})

    def measured(loop: RoundLoop) -> Measurement:
        # Of one node per client, as many as can work at a time; hosts are that many.
        shards = None if config.clients_per_node == 0 else os.cpu_count()
        last = loop.round == loop.rounds
        return measure(grid.everyone(), task, loop.arrays, samples=last, shards=shards)

    advice = f"go on with `fedau resume {run.path}`"
    record, times = ParticipationRecord(experiment, grid), RoundTimes()
    progress = Progress(every=None, file=run.progress_file)
    return RoundLoop(
        strategy,
        grid,
        [
            *callbacks,
            record,
            Reports(run, config, measured, progress, record),
            StopOnDivergence(),
            StopOnRequest(run.stop_file, signals=(), advice=advice),
            times,
            progress,
            SimulationCheckpoints(run, config, record, times),
            Outcome(run),
        ],
        train_config=train_config,
        timeout=TIMEOUT,
        check_replies=check_replies,
    )


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
