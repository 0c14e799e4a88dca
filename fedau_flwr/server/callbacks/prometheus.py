"""A training's numbers as text in the Prometheus exposition format, for long runs.

The file is replaced once per round. A node exporter reads it where it is
(``--collector.textfile.directory``), and so does anybody with ``cat``.
"""

from __future__ import annotations

import re
from pathlib import Path

from ...files import save_text
from ..callback import Callback
from ..loop import RoundLoop
from ..report import RoundReport

GAUGES = {
    "fedau_round": "Rounds that are in the model.",
    "fedau_rounds": "Rounds that the training shall have.",
    "fedau_attempt": "1, and one more at every resume.",
    "fedau_nodes_asked": "Nodes that were asked in the last round.",
    "fedau_participants": "Clients in the sum of the last round.",
    "fedau_absentees": "Nodes without a reply in the last round.",
    "fedau_rejects": "Nodes whose reply was rejected in the last round.",
    "fedau_round_seconds": "Duration of the last round.",
}
COUNTERS = {
    "fedau_participations_total": "Contributions in the model since this attempt began.",
    "fedau_absences_total": "Missing replies since this attempt began.",
    "fedau_rejections_total": "Rejected replies since this attempt began.",
    "fedau_seconds_total": "Seconds in rounds since this attempt began.",
}


class PrometheusTextfile(Callback):
    """Keeps a file up to date: gauges, counters, and a gauge ``fedau_<name>`` for every metric.

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
        self._values: dict[str, float] = dict.fromkeys(COUNTERS, 0)
        self._metrics: dict[str, float] = {}

    def round_done(self, loop: RoundLoop, report: RoundReport) -> None:
        """Write the numbers after a round, and the metrics when they were last measured."""
        values = self._values
        values |= {
            "fedau_round": report.round,
            "fedau_rounds": loop.rounds,
            "fedau_attempt": loop.attempt,
            "fedau_nodes_asked": report.asked,
            "fedau_participants": report.counted,
            "fedau_absentees": report.absent,
            "fedau_rejects": report.rejected,
            "fedau_round_seconds": report.seconds,
        }
        values["fedau_participations_total"] += report.counted
        values["fedau_absences_total"] += report.absent
        values["fedau_rejections_total"] += report.rejected
        values["fedau_seconds_total"] += report.seconds
        for name, value in loop.metrics.items():
            if isinstance(value, int | float):
                self._metrics["fedau_" + re.sub(r"\W", "_", name, flags=re.ASCII)] = value
        save_text(self._path, self.text())
        # The exporter is another user than the app.
        self._path.chmod(0o644)

    def text(self) -> str:
        """Return the file's content."""
        measured = sorted(self._metrics.keys() - (GAUGES.keys() | COUNTERS))
        gauges = GAUGES | dict.fromkeys(measured, "Metric, when last measured.")
        values = self._metrics | self._values
        lines = []
        for kind, names in (("gauge", gauges), ("counter", COUNTERS)):
            for name, meaning in names.items():
                if name in values:
                    lines += [
                        f"# HELP {name} {meaning}",
                        f"# TYPE {name} {kind}",
                        f'{name}{{run="{self._label}"}} {values[name]:.10g}',
                    ]
        return "\n".join(lines) + "\n"
