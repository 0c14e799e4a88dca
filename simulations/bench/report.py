"""The rows of a benchmark with their goals, and its table and JSON file."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table

from fedau_flwr.files import save_text

COLUMNS = ("measured", "value", "goal", "")
ROWS = {
    # key: (goal, with its unit unless it is a ratio; what it is)
    "hosts": ("≤ 1.1", "FedAU with hosts / bare loop"),
    "alone": ("≤ 1.6", "FedAU, one client per node / bare loop"),
    "alone-fedavg": ("≤ 1.03", "FedAU / Flower's FedAvg, both one client per node in this suite"),
    "flower": ("≥ 1.6", "Flower's FedAvg on Flower's own loop, one client per node / FedAU, hosts"),
    "fedavg": ("≥ 1.6", "Flower's FedAvg in this suite, one client per node / FedAU, hosts"),
    "step": ("≥ 1.4", "bare loop with a plain module / with our training step"),
    "scale": ("≤ 1.15", "round with {:,} clients / with {:,}, as many participants"),
    "bytes": ("≤ 1.001", "bytes that a FedAU client sends / that a FedAvg client sends"),
    "weights": ("≤ 50 ms", "{:,} weights advance one round"),
    "secure": ("≥ 4", "a secure round with SecAgg+ of Flower / with ours"),
    "secure-bytes": (
        "≤ 1.05",
        "bytes that a client sends in a secure round / its vector in float32",
    ),
    "secure-server": ("≤ 7 s", "the server's part of a secure round of {:,} clients"),
    "secure-client": ("≤ 150 ms", "one client's part of it, of {:,}"),
    "secure-overhead": ("≤ 1.03", "bytes that it sends / its vector, of {:,}"),
    "roster-server": ("≤ 3", "the server's part with a roster / without, {:,} clients"),
    "roster-client": ("≤ 3", "one client's part with a roster / without, {:,} clients"),
    "roster-server-few": ("≤ 2", "the server's part with a roster / without, of {:,} alone"),
    "roster-client-few": ("≤ 2", "one client's part with a roster / without, of {:,} alone"),
    "roster-overhead": ("≤ 1.1", "bytes that a client sends with a roster / its vector, of {:,}"),
}


@dataclass(frozen=True)
class Row:
    """One measured number, which `ROWS` describes."""

    key: str
    value: float
    sizes: tuple[int, ...] = ()  # the numbers that its text names
    details: dict[str, Any] = field(default_factory=dict)  # what it was computed from
    profile: dict[str, Any] = field(default_factory=dict)  # where the time goes, in milliseconds
    note: str = ""  # a sentence below the table

    @property
    def text(self) -> str:
        """What it is."""
        return ROWS[self.key][1].format(*self.sizes)

    @property
    def goal(self) -> tuple[str, float, str]:
        """On which side of which number it must be, and the unit of both, empty for a ratio."""
        sign, number, *unit = ROWS[self.key][0].split()
        return sign, float(number), "".join(unit)

    @property
    def met(self) -> bool:
        """Whether the goal is reached."""
        sign, number, _ = self.goal
        return self.value <= number if sign == "≤" else self.value >= number

    def to_dict(self) -> dict[str, Any]:
        """Return the row for the JSON file."""
        sign, number, unit = self.goal
        row = {
            "key": self.key,
            "text": self.text,
            "value": self.value,
            "unit": unit or "ratio",
            "goal": f"{'at most' if sign == '≤' else 'at least'} {number:g}",
            "met": self.met,
            "details": self.details,
        }
        return row | ({"profile-milliseconds": self.profile} if self.profile else {})

    def cells(self) -> tuple[str, str, str, str]:
        """Return the row for the table."""
        value = f"{self.value:.{4 if self.key == 'bytes' else 2}f} {self.goal[2]}".strip()
        return self.text, value, ROWS[self.key][0], "met" if self.met else "missed"


def show(rows: Sequence[Row], machine: dict[str, Any], console: Console) -> None:
    """Print the table, and where the time goes for every goal that was missed."""
    table = Table(*COLUMNS, title=f"{machine['processor']}, {machine['cores']} cores")
    for row in rows:
        table.add_row(*row.cells())
    console.print(table)
    for row in rows:
        if row.note:
            console.print(row.note, highlight=False)
    for row in rows:
        if row.profile and not row.met:
            console.print(f"Missed: {row.text}. Where the time goes, in milliseconds:")
            for name, milliseconds in row.profile.items():
                console.print(f"  {name}: {milliseconds:.1f}", highlight=False)


def save(path: Path, rows: Sequence[Row], **facts: Any) -> None:
    """Write everything that was measured, and the table as Markdown beside it."""
    content = {**facts, "rows": [row.to_dict() for row in rows]}
    path.parent.mkdir(parents=True, exist_ok=True)
    save_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")
    lines = [COLUMNS, ("---",) * len(COLUMNS), *(row.cells() for row in rows)]
    table = "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
    save_text(path.with_suffix(".md"), table)


def describe_machine() -> dict[str, Any]:
    """Return processor, cores, memory and the versions of what the numbers depend on."""
    info = Path("/proc/cpuinfo")  # Python has no portable call for the processor's name
    lines = info.read_text(encoding="utf-8").splitlines() if info.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "processor": (names or [platform.processor() or platform.machine()])[0],
        "cores": os.cpu_count(),
        "memory-gigabytes": round(psutil.virtual_memory().total / 1e9, 1),
        "system": platform.platform(),
        "load-at-start": [round(value, 2) for value in os.getloadavg()],
        "python": sys.version.split()[0],
        **{name: version(name) for name in ("torch", "flwr", "ray", "numpy")},
    }
