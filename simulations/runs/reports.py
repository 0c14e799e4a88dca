"""What a run writes into its directory: reports, times, and how it ended."""

import logging
import resource
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedau_flwr.files import save_arrays
from fedau_flwr.server.callbacks import Callback, Progress
from fedau_flwr.server.loop import RoundLoop
from fedau_flwr.server.report import RoundReport
from simulations.config import RunConfig
from simulations.runs.directory import RunDirectory
from simulations.runs.measurement import Measurement
from simulations.runs.participation import ParticipationRecord

log = logging.getLogger("flwr.simulations")

PHASES = ("configure", "exchange", "aggregate", "record", "evaluate", "checkpoint")
"""Ask the strategy whom to send what; send, train, receive; sum up; keep the books; the rest."""


class Reports(Callback):
    """Adds an object to metrics.jsonl and a line to the log per evaluation; in the end clients.npz.

    A run that has diverged gets a last one. `record` knows how many came; without it, that is how
    many nodes were asked.
    """

    in_checkpoints = ("since",)

    def __init__(
        self,
        run: RunDirectory,
        config: RunConfig,
        measure: Callable[[RoundLoop], Measurement],
        progress: Progress,
        record: ParticipationRecord | None = None,
    ) -> None:
        self._run, self._config, self._measure = run, config, measure
        self._progress, self._record = progress, record
        self._seconds: list[float] = []
        self._last: Measurement | None = None
        self.since = [0, 0, 0]
        """Rounds since the last report, and how many participated and were counted in them."""

    def on_start(self, loop: RoundLoop) -> None:
        """Forget what a resumed run will report again."""
        if loop.attempt > 1:
            self._run.forget_reports_after(loop.round)

    def after_round(self, loop: RoundLoop, report: RoundReport) -> None:
        """Evaluate if it is time to."""
        self._seconds.append(loop.round_seconds)
        came = (report.asked, report.counted) if self._record is None else self._record.last
        self.since = [sum(pair) for pair in zip(self.since, (1, *came), strict=True)]
        if self._config.evaluates(loop.round):
            self._report(loop)

    def on_end(self, loop: RoundLoop) -> None:
        """Show where a model has gone that is lost, or what the final one is to each client."""
        if loop.status == "diverged" and self._seconds:
            self._report(loop)
        if loop.status == "finished" and self._record and self._last and self._last.samples:
            save_arrays(self._run.clients_file, self._last.by_client(self._record.split))

    def _report(self, loop: RoundLoop) -> None:
        with loop.timed("evaluate"):
            self._last = self._measure(loop)
        # What a private sum has spent is among the metrics of its round.
        spent = {k: v for k, v in loop.metrics.items() if k.startswith("epsilon")}
        metrics = {**self._last.metrics(), **spent}
        loop.metrics |= metrics
        rounds, participants, counted = self.since
        shares = {"participants": participants / rounds, "counted": counted / rounds}
        median = round(float(np.median(self._seconds)), 4)
        times = {"round_seconds": median, "seconds": round(loop.seconds, 3)}
        self._run.report({"round": loop.round, **metrics, **shares, **times})
        self._seconds.clear()
        self.since = [0, 0, 0]
        said = [str(self._last), *(f"{k} {v:.3g}" for k, v in spent.items())]
        if words := ", ".join(filter(None, said)):
            throughput = self._progress.words(loop)
            log.info("Round %d/%d: %s; %s", loop.round, loop.rounds, words, throughput)


class RoundTimes(Callback):
    """Seconds per round of this attempt, phase by phase."""

    def __init__(self) -> None:
        self._spent: list[list[float]] = []

    def before_round(self, loop: RoundLoop) -> None:
        """Leave out what came before the first round."""
        if not self._spent:
            self._note(loop)

    def after_round(self, loop: RoundLoop, report: RoundReport) -> None:
        """End a round; its checkpoint comes later and belongs to the next one."""
        self._note(loop)

    def _note(self, loop: RoundLoop) -> None:
        self._spent.append([loop.spent.get(phase, 0.0) for phase in PHASES])

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the seconds of every round by phase, and the most memory of this process."""
        times = np.diff(np.reshape(self._spent, (-1, len(PHASES))), axis=0)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        resident = peak if sys.platform == "darwin" else 1024 * peak
        return {**dict(zip(PHASES, times.T, strict=True)), "resident": np.array(resident)}


class Outcome(Callback):
    """Keeps outcome.json; the last of a loop's callbacks, since all others may still fail."""

    def __init__(self, run: RunDirectory) -> None:
        self._run = run

    def on_start(self, loop: RoundLoop) -> None:
        """Say that the run is going on, or how it ended."""
        self._run.finish(loop.status, loop.round, loop.sentence)

    on_end = on_start
