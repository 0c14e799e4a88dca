"""How fast a run goes, and how long it will take."""

from __future__ import annotations

import time
from datetime import timedelta


class Pace:
    """Rounds per second since the first round of an attempt, which is slow and left out."""

    def __init__(self, done: int) -> None:
        self._first = done + 1
        self._since = time.monotonic()
        self._shown = 0.0

    def due(self) -> bool:
        """Return whether a second has passed since the last time."""
        now = time.monotonic()
        if now - self._shown < 1.0:
            return False
        self._shown = now
        return True

    def numbers(self, done: int, rounds: int) -> dict[str, float | None]:
        """Return rounds per second and seconds left, None as long as nothing is known."""
        now = time.monotonic()
        if done <= self._first:
            self._since = now
            return {"rounds_per_second": None, "seconds_left": None}
        speed = (done - self._first) / max(now - self._since, 1e-9)
        return {"rounds_per_second": speed, "seconds_left": (rounds - done) / speed}

    def words(self, done: int, rounds: int) -> str:
        """Return the pace for a log line."""
        numbers = self.numbers(done, rounds)
        speed, left = numbers["rounds_per_second"], numbers["seconds_left"]
        if speed is None or left is None:
            return "pace not known yet"
        return f"{speed:.2f} rounds/s, {timedelta(seconds=round(left))} left"
