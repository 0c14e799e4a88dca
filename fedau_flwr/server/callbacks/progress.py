"""How fast a run goes, and how long it will take."""

import logging
import time
from datetime import timedelta
from pathlib import Path

from ...files import save_text, to_json
from ..loop import Callback, RoundLoop
from ..report import RoundReport

log = logging.getLogger("flwr.loop")

FILE_SECONDS = 1.0


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
        self._first, self._since = 1, 0.0

    def on_start(self, loop: RoundLoop) -> None:
        """Begin with the first round of this attempt, which is slow and left out."""
        self._first = loop.round + 1

    def after_round(self, loop: RoundLoop, report: RoundReport) -> None:
        """Take the end of the first round, from which on time counts."""
        if loop.round == self._first:
            self._since = time.monotonic()

    def numbers(self, loop: RoundLoop) -> dict[str, float | None]:
        """Return rounds per second and seconds left, None as long as nothing is known."""
        if loop.round <= self._first:
            return {"rounds_per_second": None, "seconds_left": None}
        speed = (loop.round - self._first) / max(time.monotonic() - self._since, 1e-9)
        return {"rounds_per_second": speed, "seconds_left": (loop.rounds - loop.round) / speed}

    def words(self, loop: RoundLoop) -> str:
        """Return the throughput for a log line."""
        speed, left = self.numbers(loop).values()
        if speed is None or left is None:
            return "throughput not known yet"
        return f"{speed:.2f} rounds/s, {timedelta(seconds=round(left))} left"

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
            numbers = {"round": loop.round, "rounds": loop.rounds, **self.numbers(loop)}
            save_text(self._file, to_json(numbers))

    def _line(self, loop: RoundLoop, report: RoundReport) -> str:
        metrics = {k: v for k, v in loop.metrics.items() if isinstance(v, int | float)}
        parts = [f"{report.counted} counted", *(f"{k} {v:.4g}" for k, v in metrics.items())]
        return f"Round {loop.round}/{loop.rounds}: {', '.join(parts)}; {self.words(loop)}"
