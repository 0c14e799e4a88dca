"""The reports of a run: evaluation when its settings say so, and what came of it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fedau_flwr.files import save_arrays
from fedau_flwr.server.callbacks import Callback, Progress
from fedau_flwr.server.loop import RoundLoop
from fedau_flwr.server.report import RoundReport
from simulations.config import RunConfig
from simulations.nodes.evaluator import client_means, client_test_accuracy
from simulations.runs.directory import RunDirectory
from simulations.runs.measurement import Measurement
from simulations.runs.participation import ParticipationRecord
from simulations.tasks.split import Split

log = logging.getLogger("flwr.simulations")


class Reports(Callback):
    """Adds an object to metrics.jsonl and a line to the log per evaluation.

    Parameters
    ----------
    run : RunDirectory
        Where they go.
    config : RunConfig
        Says after which rounds. A run that has diverged gets a last one.
    measure : Callable[[RoundLoop], Measurement]
        Evaluates the model.
    progress : Progress
        Knows how fast the run goes.
    record : ParticipationRecord | None
        Knows how many came; by default it is how many nodes were asked.
    """

    def __init__(
        self,
        run: RunDirectory,
        config: RunConfig,
        measure: Callable[[RoundLoop], Measurement],
        progress: Progress,
        record: ParticipationRecord | None = None,
    ) -> None:
        self._run = run
        self._config = config
        self._measure = measure
        self._progress = progress
        self._record = record
        self._since = (0, 0, 0)
        self._seconds: list[float] = []
        self.last: Measurement | None = None

    def on_start(self, loop: RoundLoop) -> None:
        """Forget what a resumed run will report again."""
        if loop.attempt > 1:
            self._run.forget_reports_after(loop.round)

    def after_round(self, loop: RoundLoop, report: RoundReport) -> None:
        """Evaluate if it is time to."""
        self._seconds.append(loop.round_seconds)
        came = (report.asked, report.counted) if self._record is None else self._record.last
        rounds, participants, counted = self._since
        self._since = (rounds + 1, participants + came[0], counted + came[1])
        if self._config.evaluates(loop.round):
            self._report(loop)

    def on_end(self, loop: RoundLoop) -> None:
        """Show where a model has gone that is lost."""
        if loop.status == "diverged" and self._seconds:
            self._report(loop)

    def _report(self, loop: RoundLoop) -> None:
        with loop.timed("evaluate"):
            self.last = self._measure(loop)
        metrics = self.last.metrics()
        loop.metrics |= metrics
        rounds, participants, counted = self._since
        self._run.report(
            {
                "round": loop.round,
                **metrics,
                "participants": participants / rounds,
                "counted": counted / rounds,
                "round_seconds": round(float(np.median(self._seconds)), 4),
                "seconds": round(loop.seconds, 3),
            }
        )
        self._seconds.clear()
        self._since = (0, 0, 0)
        if words := self.last.words():
            pace = self._progress.words(loop)
            log.info("Round %d/%d: %s; %s", loop.round, loop.rounds, words, pace)

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint needs."""
        return {"since": self._since}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a checkpoint."""
        rounds, participants, counted = state["since"]
        self._since = (rounds, participants, counted)


class ClientResults(Callback):
    """Writes clients.npz when the run has finished, from the last report's samples."""

    def __init__(self, run: RunDirectory, split: Split, reports: Reports) -> None:
        self._run = run
        self._split = split
        self._reports = reports

    def on_end(self, loop: RoundLoop) -> None:
        """Split the last evaluation up by client."""
        last, split = self._reports.last, self._split
        if loop.status != "finished" or last is None or last.samples is None or last.test is None:
            return
        save_arrays(
            self._run.clients_file,
            {
                "loss": client_means(split, last.samples.losses),
                "train_accuracy": client_means(split, last.samples.scores),
                "test_accuracy": client_test_accuracy(split, last.test),
            },
        )
