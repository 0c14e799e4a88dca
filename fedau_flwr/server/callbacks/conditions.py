"""When a round may begin, and when a run ends before its last one."""

import logging
import math
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from ...wire.records import decode_all
from ..loop import Callback, RoundLoop
from ..report import RoundReport

log = logging.getLogger("flwr.loop")

UNCOUNTED_ROUNDS = 20
"""Rounds with participants but without any finite update, after which a run has diverged."""
LOOK_SECONDS, WORD_SECONDS = 1.0, 60.0
"""Between two looks for nodes while there are too few, and two lines in the log about that."""


class StopOnDivergence(Callback):
    """Ends the run when no training brings the model back from where it has gone.

    That is: the model or a metric with "loss" in its name is not finite, or in 20 rounds in a row
    there were participants, but no update that could be counted.
    """

    in_checkpoints = ("uncounted",)
    uncounted = 0

    def after_round(self, loop: RoundLoop, report: RoundReport) -> None:
        """Count the rounds without any update that is of use."""
        if report.counted:
            self.uncounted = 0
        elif report.rejected:
            self.uncounted += 1

    def round_done(self, loop: RoundLoop, report: RoundReport) -> None:
        """Look at what there is after a round."""
        if reason := self._reason(loop):
            where = f"round {loop.round} of {loop.rounds}"
            loop.stop(f"The run ended after {where}, because {reason}.", status="diverged")

    def _reason(self, loop: RoundLoop) -> str | None:
        if self.uncounted >= UNCOUNTED_ROUNDS:
            return f"in {UNCOUNTED_ROUNDS} rounds with participants no update was finite and valid"
        if not all(np.isfinite(value).all() for value in decode_all(loop.arrays).values()):
            return "its model has values that are no finite numbers"
        losses = [value for name, value in loop.metrics.items() if "loss" in name]
        if any(isinstance(loss, float) and not math.isfinite(loss) for loss in losses):
            return "its loss is no finite number any more"
        return None


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
        self._signalled = True
        self._restore()

    def _restore(self) -> None:
        while self._before:
            signal.signal(*self._before.popitem())


class WaitForNodes(Callback):
    """Lets no round begin before `least` nodes are connected; `request` may end the wait."""

    def __init__(self, least: int = 1, *, request: StopOnRequest | None = None) -> None:
        self._least = least
        self._request = request

    def before_round(self, loop: RoundLoop) -> None:
        """Wait until a round makes sense or the run is to stop."""
        silent_until = 0.0
        while (connected := len(list(loop.grid.get_node_ids()))) < self._least:
            if self._request is not None and self._request.check(loop):
                return
            if time.monotonic() >= silent_until:
                numbers = (loop.round + 1, connected, self._least)
                log.info("Round %d waits for nodes: %d connected, at least %d needed.", *numbers)
                silent_until = time.monotonic() + WORD_SECONDS
            time.sleep(LOOK_SECONDS)
