"""The reports of a run: evaluation when its settings say so, and what came of it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from fedau_flwr.files import save_arrays
from fedau_flwr.server.callbacks import Callback, Progress
from fedau_flwr.server.loop import RoundLoop
from fedau_flwr.server.report import RoundReport
from simulations.config import RunConfig
from simulations.nodes.evaluator import client_means, client_test_accuracy
from simulations.runs.directory import RunDirectory
from simulations.runs.measurement import Measurement
from simulations.tasks.split import Split

log = logging.getLogger("flwr.simulations")


class Counts(Protocol):
    """Knows how many came."""

    def since_last_report(self, server_round: int) -> dict[str, float]:
        """Return the means per round since the last call."""


class AskedAndCounted(Callback):
    """Knows how many nodes were asked and how many clients were counted, from the reports."""

    def __init__(self) -> None:
        self._sums = (0, 0, 0)

    def after_round(self, loop: RoundLoop, report: RoundReport) -> None:
        """Note one round."""
        rounds, asked, counted = self._sums
        self._sums = (rounds + 1, asked + report.asked, counted + report.counted)

    def since_last_report(self, server_round: int) -> dict[str, float]:
        """Return the means per round since the last call."""
        rounds, asked, counted = self._sums
        self._sums = (0, 0, 0)
        return {"participants": asked / max(rounds, 1), "counted": counted / max(rounds, 1)}

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint needs."""
        return {"sums": self._sums}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a checkpoint."""
        rounds, asked, counted = state["sums"]
        self._sums = (rounds, asked, counted)


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
    counts : Counts
        Knows how many came.
    progress : Progress
        Knows how fast the run goes.
    """

    def __init__(
        self,
        run: RunDirectory,
        config: RunConfig,
        measure: Callable[[RoundLoop], Measurement],
        counts: Counts,
        progress: Progress,
    ) -> None:
        self._run = run
        self._config = config
        self._measure = measure
        self._counts = counts
        self._progress = progress
        self._seconds: list[float] = []
        self.last: Measurement | None = None

    def on_start(self, loop: RoundLoop) -> None:
        """Forget what a resumed run will report again."""
        if loop.attempt > 1:
            self._run.forget_reports_after(loop.round)

    def after_round(self, loop: RoundLoop, report: RoundReport) -> None:
        """Evaluate if it is time to."""
        self._seconds.append(loop.round_seconds)
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
        self._run.report(
            {
                "round": loop.round,
                **metrics,
                **self._counts.since_last_report(loop.round),
                "round_seconds": round(float(np.median(self._seconds)), 4),
                "seconds": round(loop.seconds, 3),
            }
        )
        self._seconds.clear()
        if words := self.last.words():
            pace = self._progress.throughput.words(loop.round, loop.rounds)
            log.info("Round %d/%d: %s; %s", loop.round, loop.rounds, words, pace)


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
                "train_accuracy": client_means(split, last.samples.correct.astype(np.float64)),
                "test_accuracy": client_test_accuracy(split, last.test),
            },
        )
