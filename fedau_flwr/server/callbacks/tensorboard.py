"""TensorBoard event files, written without torch or TensorFlow."""

from __future__ import annotations

import math
import time
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..callback import Callback
from ..loop import RoundLoop
from ..report import RoundReport


class ScalarWriter:
    """Writes numbers into an event file below `directory`; the package tensorboard is needed.

    Parameters
    ----------
    directory : str | Path
        Where the file goes.
    first : int (default: 0)
        TensorBoard forgets steps from here on that are in older files.
    """

    def __init__(self, directory: str | Path, *, first: int = 0) -> None:
        # Takes a third of a second, and most loops have no use for it.
        events = import_module("tensorboard.compat.proto.event_pb2")
        writer = import_module("tensorboard.summary.writer.event_file_writer")
        self._event = events.Event
        self._summary = import_module("tensorboard.compat.proto.summary_pb2").Summary
        self._file = writer.EventFileWriter(str(directory))
        started = events.SessionLog(status=events.SessionLog.START)
        self._file.add_event(self._event(wall_time=time.time(), step=first, session_log=started))

    def add(self, step: int, values: dict[str, Any]) -> None:
        """Write the finite numbers among `values`."""
        numbers = {tag: float(v) for tag, v in values.items() if isinstance(v, int | float)}
        pairs = [
            self._summary.Value(tag=tag, simple_value=value)
            for tag, value in numbers.items()
            if math.isfinite(value)
        ]
        event = self._event(wall_time=time.time(), step=step, summary=self._summary(value=pairs))
        self._file.add_event(event)

    def flush(self) -> None:
        """Make what was written visible."""
        self._file.flush()

    def close(self) -> None:
        """End the file."""
        self._file.close()


class TensorBoard(Callback):
    """Shows the rounds' participation and metrics in TensorBoard.

    Parameters
    ----------
    directory : str | Path
        For ``tensorboard --logdir``.
    """

    def __init__(self, directory: str | Path) -> None:
        if find_spec("tensorboard") is None:
            raise ModuleNotFoundError(
                "The callback needs TensorBoard: run `pip install 'fedau-flwr[tensorboard]'`."
            )
        self._directory = directory
        self._writer: ScalarWriter | None = None

    def on_start(self, loop: RoundLoop) -> None:
        """Open the file; of a resumed run only the rounds in the model stay visible."""
        self._writer = ScalarWriter(self._directory, first=loop.round + 1)

    def round_done(self, loop: RoundLoop, report: RoundReport) -> None:
        """Write what a round came to."""
        if self._writer is not None:
            counts = {name: getattr(report, name) for name in ("counted", "rejected", "absent")}
            named = {f"participation/{name}": value for name, value in counts.items()}
            self._writer.add(loop.round, named | loop.metrics)
            self._writer.flush()

    def on_end(self, loop: RoundLoop) -> None:
        """Close the file."""
        if self._writer is not None:
            self._writer.close()
