"""How fast a run goes, and how long it will take."""

from __future__ import annotations

import logging
import time
from datetime import timedelta
from pathlib import Path

from ...files import save_text, to_json
from ..callback import Callback
from ..loop import RoundLoop
from ..report import RoundReport

log = logging.getLogger("flwr.loop")

FILE_SECONDS = 1.0


class Throughput:
    """Rounds per second since the first round of an attempt, which is slow and left out."""

    def __init__(self, done: int) -> None:
        self._first = done + 1
        self._since = time.monotonic()

    def numbers(self, done: int, rounds: int) -> dict[str, float | None]:
        """Return rounds per second and seconds left, None as long as nothing is known."""
        now = time.monotonic()
        if done <= self._first:
            self._since = now
            return {"rounds_per_second": None, "seconds_left": None}
        speed = (done - self._first) / max(now - self._since, 1e-9)
        return {"rounds_per_second": speed, "seconds_left": (rounds - done) / speed}

    def words(self, done: int, rounds: int) -> str:
        """Return the throughput for a log line."""
        numbers = self.numbers(done, rounds)
        speed, left = numbers["rounds_per_second"], numbers["seconds_left"]
        if speed is None or left is None:
            return "throughput not known yet"
        return f"{speed:.2f} rounds/s, {timedelta(seconds=round(left))} left"


class Progress(Callback):
    """Logs how far the run is: after every evaluation, and from time to time.

    Parameters
    ----------
    every : float | None (default: 60)
        Seconds between lines at most; None logs nothing at all.
    file : Path | None (default: None)
        A JSON file for other programs, replaced every second: ``round``, ``rounds``,
        ``rounds_per_second`` and ``seconds_left``.
    """

    def __init__(self, *, every: float | None = 60.0, file: Path | None = None) -> None:
        self._every = every
        self._file = file
        self._logged = self._saved = 0.0
        self.throughput = Throughput(0)

    def on_start(self, loop: RoundLoop) -> None:
        """Begin to measure."""
        self.throughput = Throughput(loop.round)

    def after_round(self, loop: RoundLoop, report: RoundReport) -> None:
        """Take the end of the first round, from which on it counts."""
        self.throughput.numbers(loop.round, loop.rounds)

    def round_done(self, loop: RoundLoop, report: RoundReport) -> None:
        """Say it where it is due."""
        now, result = time.monotonic(), loop.result
        evaluated = result.evaluate_metrics_serverapp.keys() | result.evaluate_metrics_clientapp
        worth = loop.round in evaluated or loop.round == loop.rounds
        if self._every is not None and (worth or now - self._logged >= self._every):
            self._logged = now
            log.info("%s", self._line(loop, report))
        if self._file is not None and now - self._saved >= FILE_SECONDS:
            self._saved = now
            numbers = self.throughput.numbers(loop.round, loop.rounds)
            save_text(self._file, to_json({"round": loop.round, "rounds": loop.rounds, **numbers}))

    def _line(self, loop: RoundLoop, report: RoundReport) -> str:
        metrics = {k: v for k, v in loop.metrics.items() if isinstance(v, int | float)}
        parts = [f"{report.counted} counted", *(f"{k} {v:.4g}" for k, v in metrics.items())]
        pace = self.throughput.words(loop.round, loop.rounds)
        return f"Round {loop.round}/{loop.rounds}: {', '.join(parts)}; {pace}"
