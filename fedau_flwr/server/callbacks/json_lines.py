"""A line of JSON per round."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from ...files import append_json_line, drop_rounds_after
from ..callback import Callback
from ..loop import RoundLoop
from ..report import RoundReport


class JsonLines(Callback):
    """Adds an object per round to `path`: the round's report, the seconds so far, all metrics.

    What is not a finite number is null. A resumed run takes the rounds that it runs again out of
    the file.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)

    def on_start(self, loop: RoundLoop) -> None:
        """Begin with the rounds that are in the model."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        drop_rounds_after(self._path, loop.round)

    def round_done(self, loop: RoundLoop, report: RoundReport) -> None:
        """Add a line."""
        numbers = {key: value for key, value in asdict(report).items() if key != "clients"}
        numbers |= {"round_seconds": report.seconds, "seconds": loop.seconds}
        append_json_line(self._path, numbers | loop.metrics)
