"""A stop that somebody asks for."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Any

from ..callback import Callback
from ..loop import RoundLoop
from ..report import RoundReport


class StopOnRequest(Callback):
    """Ends the run after the running round when a signal came or a file is there.

    A second signal does what it did before there was a loop.

    Parameters
    ----------
    file : str | Path | None (default: None)
        Whoever creates this file asks for a stop; it is gone when the run has ended.
    signals : tuple[signal.Signals, ...] (default: SIGINT and SIGTERM)
        Only a loop in a program's main thread hears them.
    advice : str (default: how to go on from checkpoints)
        What the loop's sentence says about going on.
    """

    def __init__(
        self,
        file: str | Path | None = None,
        *,
        signals: tuple[signal.Signals, ...] = (signal.SIGINT, signal.SIGTERM),
        advice: str = "the same call goes on from the last checkpoint, if there are any",
    ) -> None:
        self._file = None if file is None else Path(file)
        self._signals = signals
        self._advice = advice
        self._signalled = False
        self._before: dict[signal.Signals, Any] = {}

    def on_start(self, loop: RoundLoop) -> None:
        """Listen to the signals."""
        if threading.current_thread() is threading.main_thread():
            self._before = {one: signal.signal(one, self._note) for one in self._signals}

    def after_round(self, loop: RoundLoop, report: RoundReport) -> None:
        """Stop if asked to."""
        self.check(loop)

    def check(self, loop: RoundLoop) -> bool:
        """Return whether somebody has asked for a stop, and stop then."""
        if not (self._signalled or (self._file is not None and self._file.exists())):
            return False
        where = f"round {loop.round} of {loop.rounds}"
        loop.stop(f"The run was stopped after {where}; {self._advice}.")
        return True

    def on_end(self, loop: RoundLoop) -> None:
        """Leave everything as it was."""
        self._restore()
        if self._file is not None:
            self._file.unlink(missing_ok=True)

    def _note(self, number: int, frame: object) -> None:
        del number, frame
        self._signalled = True
        self._restore()

    def _restore(self) -> None:
        while self._before:
            signal.signal(*self._before.popitem())
