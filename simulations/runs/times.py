"""Where the time of a run goes."""

from __future__ import annotations

import resource
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedau_flwr.server.callbacks import Callback
from fedau_flwr.server.loop import RoundLoop
from fedau_flwr.server.report import RoundReport

PHASES = ("configure", "exchange", "aggregate", "record", "evaluate", "checkpoint")
"""Ask the strategy whom to send what; send, train, receive; sum up; keep the books; the rest."""


class RoundTimes(Callback):
    """Seconds per round of this attempt, phase by phase."""

    def __init__(self) -> None:
        self._rounds: list[dict[str, float]] = []
        self._before: dict[str, float] | None = None

    def before_round(self, loop: RoundLoop) -> None:
        """Leave out what came before the first round."""
        if self._before is None:
            self._before = dict(loop.spent)

    def after_round(self, loop: RoundLoop, report: RoundReport) -> None:
        """End a round; its checkpoint comes later and belongs to the next one."""
        now, before = dict(loop.spent), self._before or {}
        self._rounds.append({name: now.get(name, 0.0) - before.get(name, 0.0) for name in PHASES})
        self._before = now

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the seconds of every round by phase, and this process's memory."""
        times = {name: np.array([times[name] for times in self._rounds]) for name in PHASES}
        return {**times, "resident": np.array(resident_bytes())}


def resident_bytes() -> int:
    """Return the most memory that this process has had so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
