"""A training's numbers as text in the Prometheus exposition format, for long runs.

The file is replaced once per round. A node exporter reads it where it is
(``--collector.textfile.directory``), and so does anybody with ``cat``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fedau_flwr.server.report import RoundReport
from simulations.runs.directory import write_atomically

GAUGES = {
    "fedau_round": "Rounds that are in the model.",
    "fedau_rounds": "Rounds that the training shall have.",
    "fedau_attempt": "1, and one more at every resume.",
    "fedau_nodes_asked": "Nodes that were asked in the last round.",
    "fedau_participants": "Clients in the sum of the last round.",
    "fedau_absentees": "Nodes without a reply in the last round.",
    "fedau_rejects": "Nodes whose reply was rejected in the last round.",
    "fedau_round_seconds": "Duration of the last round.",
    "fedau_test_loss": "Loss on the server's test set, when last evaluated.",
    "fedau_test_accuracy": "Accuracy on the server's test set, when last evaluated.",
}
COUNTERS = {
    "fedau_participations_total": "Contributions in the model since this attempt began.",
    "fedau_absences_total": "Missing replies since this attempt began.",
    "fedau_rejections_total": "Rejected replies since this attempt began.",
    "fedau_seconds_total": "Seconds in rounds since this attempt began.",
}


class Exposition:
    """Keeps ``path`` up to date.

    Parameters
    ----------
    path : Path
        The file.
    run : str
        Value of the label ``run``, which tells the files of several trainings apart.
    rounds : int
        Rounds that the training shall have.
    """

    def __init__(self, path: Path, *, run: str, rounds: int) -> None:
        self._path = path
        self._label = run.replace("\\", "\\\\").replace('"', '\\"')
        self._values: dict[str, float] = {"fedau_rounds": rounds, **dict.fromkeys(COUNTERS, 0)}

    def add(
        self, report: RoundReport, *, attempt: int, test: Mapping[str, float] | None = None
    ) -> None:
        """Write the numbers after a round, and those of an evaluation if there was one."""
        values = self._values
        values |= {
            "fedau_round": report.round,
            "fedau_attempt": attempt,
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
        for name, value in (test or {}).items():
            values[f"fedau_test_{name}"] = value
        text = self.text().encode()
        write_atomically(self._path, lambda file: file.write(text))
        # The exporter is another user than the app.
        self._path.chmod(0o644)

    def text(self) -> str:
        """Return the file's content."""
        lines = []
        for kind, names in (("gauge", GAUGES), ("counter", COUNTERS)):
            for name, meaning in names.items():
                if name in self._values:
                    lines += [
                        f"# HELP {name} {meaning}",
                        f"# TYPE {name} {kind}",
                        f'{name}{{run="{self._label}"}} {self._values[name]:.10g}',
                    ]
        return "\n".join(lines) + "\n"
