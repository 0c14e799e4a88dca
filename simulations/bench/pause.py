"""A run that waits between rounds while somebody else needs the machine.

Whoever wants a pause puts the file ``pause`` into the run's directory. Before its next round the
run takes the file away and writes ``paused``, with the number of that round, and waits until
``paused`` is gone.
"""

from __future__ import annotations

import time
from pathlib import Path

from fedau_flwr.files import save_text
from fedau_flwr.server.callbacks import Callback
from fedau_flwr.server.loop import RoundLoop
from simulations.runs.directory import RunDirectory

PERIOD = 0.002
"""Seconds between looks at the files; a look takes microseconds."""


def pause_file(run: RunDirectory) -> Path:
    """Return the file that asks for a pause."""
    return run.path / "pause"


def paused_file(run: RunDirectory) -> Path:
    """Return the file that is there while the run waits."""
    return run.path / "paused"


class Pausing(Callback):
    """Waits before a round if asked to, until the pause is over or the run is stopped."""

    def __init__(self, run: RunDirectory) -> None:
        self._run = run
        self._asked, self._waiting = pause_file(run), paused_file(run)

    def on_start(self, loop: RoundLoop) -> None:
        """Take away what a run that was killed has left behind."""
        self._waiting.unlink(missing_ok=True)

    def before_round(self, loop: RoundLoop) -> None:
        """Wait if asked to."""
        if not self._asked.exists():
            return
        # First of all, since whoever sees the other file may ask for the next pause at once.
        self._asked.unlink(missing_ok=True)
        save_text(self._waiting, f"{loop.round + 1}")
        while self._waiting.exists() and not self._run.stop_file.exists():
            time.sleep(PERIOD)
        self._waiting.unlink(missing_ok=True)
