"""Where the time of a run goes."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

PHASES = ("configure", "exchange", "aggregate", "record", "evaluate", "checkpoint")
"""Ask the strategy whom to send what; send, train, receive; sum up; keep the books; the rest."""


class RoundTimes:
    """Seconds per round of this attempt, phase by phase."""

    def __init__(self) -> None:
        self._rounds: list[dict[str, float]] = []
        self._running = dict.fromkeys(PHASES, 0.0)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count the time of a block for a phase of the running round."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self._running[name] += time.perf_counter() - start

    def close(self) -> None:
        """End a round."""
        self._rounds.append(self._running)
        self._running = dict.fromkeys(PHASES, 0.0)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the seconds of every closed round by phase, and this process's memory."""
        times = {name: np.array([times[name] for times in self._rounds]) for name in PHASES}
        return {**times, "resident": np.array(resident_bytes())}


def resident_bytes() -> int:
    """Return the most memory that this process has had so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
