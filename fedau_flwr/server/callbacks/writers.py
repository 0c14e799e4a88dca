"""A training's numbers for other programs: JSON lines, Prometheus."""

import re
import time
from pathlib import Path

from ...files import append_json_line, drop_rounds_after, save_text
from ..loop import Callback, RoundLoop
from ..report import RoundReport

GAUGES = {
    "round": ("round", "Rounds that are in the model."),
    "rounds": ("rounds", "Rounds that the training shall have."),
    "attempt": ("attempt", "1, and one more at every resume."),
    "nodes_asked": ("asked", "Nodes that were asked in the last round."),
    "participants": ("counted", "Clients in the sum of the last round."),
    "absentees": ("absent", "Nodes without a reply in the last round."),
    "rejects": ("rejected", "Nodes whose reply was rejected in the last round."),
    "round_seconds": ("seconds", "Duration of the last round."),
    "last_round_timestamp_seconds": ("ended", "When the last round ended, in seconds since 1970."),
}
"""Where a round's number is found, and what it means, by its name after ``fedau_``."""

COUNTERS = {
    "participations_total": ("counted", "Contributions in the model since this attempt began."),
    "absences_total": ("absent", "Missing replies since this attempt began."),
    "rejections_total": ("rejected", "Rejected replies since this attempt began."),
    "seconds_total": ("seconds", "Seconds in rounds since this attempt began."),
}
"""The same for what adds up over rounds."""


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
        seconds = {"round_seconds": report.seconds, "seconds": loop.seconds}
        append_json_line(self._path, report.numbers() | seconds | loop.metrics)


class PrometheusTextfile(Callback):
    """Keeps a file in the Prometheus exposition format up to date, for long runs.

    It has gauges, counters, and a gauge ``fedau_<name>`` for every metric, and is replaced once per
    round. A node exporter reads it where it is (``--collector.textfile.directory``), and so does
    anybody with ``cat``.

    Parameters
    ----------
    path : str | Path
        The file.
    run : str (default: the path of the file's directory)
        Value of the label ``run``, which tells the files of several trainings apart.
    """

    def __init__(self, path: str | Path, *, run: str = "") -> None:
        self._path = Path(path)
        run = run or str(self._path.parent)
        self._label = run.replace("\\", "\\\\").replace('"', '\\"')
        self._values: dict[str, float] = dict.fromkeys(GAUGES | COUNTERS, 0)
        self._metrics: dict[str, float] = {}

    def round_done(self, loop: RoundLoop, report: RoundReport) -> None:
        """Write the numbers after a round, and the metrics when they were last measured."""
        found = {**report.numbers(), "rounds": loop.rounds, "attempt": loop.attempt}
        found["ended"] = time.time()
        self._values |= {name: found[key] for name, (key, _) in GAUGES.items()}
        for name, (key, _) in COUNTERS.items():
            self._values[name] += found[key]
        for name, value in loop.metrics.items():
            if isinstance(value, int | float):
                self._metrics[re.sub(r"\W", "_", name, flags=re.ASCII)] = value
        save_text(self._path, self.text())
        # The exporter is another user than the app.
        self._path.chmod(0o644)

    def text(self) -> str:
        """Return the file's content."""
        known = GAUGES | COUNTERS
        values = self._metrics | self._values
        lines = []
        for name in [*GAUGES, *sorted(self._metrics.keys() - known), *COUNTERS]:
            meaning = known[name][1] if name in known else "Metric, when last measured."
            lines += [
                f"# HELP fedau_{name} {meaning}",
                f"# TYPE fedau_{name} {'counter' if name in COUNTERS else 'gauge'}",
                f'fedau_{name}{{run="{self._label}"}} {values[name]:.10g}',
            ]
        return "\n".join(lines) + "\n"
