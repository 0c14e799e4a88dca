"""The rows of a benchmark with their goals, and its table and JSON file."""

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
    # key: (goal, with its unit unless it is a ratio, empty if there is none; what it is)
    "hosts": ("≤ 1.1", "FedAU with hosts / bare loop"),
    "alone": ("≤ 2", "FedAU, one client per node / bare loop"),
    "alone-fedavg": ("≤ 1.03", "FedAU / Flower's FedAvg, both one client per node in this suite"),
    "mifa": ("≤ 1.1", "MIFA / FedAU, both with hosts"),
    "fedvarp": ("≤ 1.1", "FedVARP / FedAU, both with hosts"),
    "flower": ("≥ 1.6", "Flower's own loop with our training step / FedAU, hosts"),
    "fedavg": ("≥ 1.6", "Flower's FedAvg in this suite, one client per node / FedAU, hosts"),
    "step": ("≥ 1.4", "bare loop with a plain module / with our training step"),
    "share": ("", "arithmetic of a local step, of what a matrix product reaches on a core"),
    "ties": ("", "clients whose native steps end elsewhere than in double precision"),
    "gpu": ("", "local steps on a GPU, launched one by one / replayed"),
    "start": ("≤ 6 s", "from `fedau run` to the first trained client"),
    "end": ("≤ 2.5 s", "from the end of a run to the end of `fedau run`"),
    "scale": ("≤ 1.15", "round with {:,} clients / with {:,}, as many participants"),
    "million": ("≤ 840 MB", "memory of the server with {:,} clients"),
    "participants": ("≤ 1.15", "a participant's time with {:,} of them / with {:,}"),
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
    "authors": ("≥ 5", "the authors' program / FedAU, hosts"),
    "pfl": ("≥ 4.5", "pfl-research / FedAU, hosts"),
    "fedlab": ("≥ 4.5", "FedLab / FedAU, hosts"),
    "flgo": ("≥ 4.5", "FLGo / FedAU, hosts"),
    "fluke": ("≥ 4.5", "fluke / FedAU, hosts"),
    "plain-flower": ("≥ 6.5", "a plain Flower app on Flower's engine / FedAU, hosts"),
}
PERCENT = ("share", "ties")


@dataclass(frozen=True)
class Row:
    """One measured number, which `ROWS` describes."""

    key: str
    value: float | None  # None where this machine cannot measure it
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
        sign, number, *unit = (ROWS[self.key][0] or "≥ 0").split()
        return sign, float(number), "".join(unit)

    @property
    def met(self) -> bool:
        """Whether the goal is reached; without goal or value there is nothing to miss."""
        sign, number, _ = self.goal
        if self.value is None:
            return True
        return self.value <= number if sign == "≤" else self.value >= number

    def to_dict(self) -> dict[str, Any]:
        """Return the row for the JSON file."""
        sign, number, unit = self.goal
        row: dict[str, Any] = {
            "key": self.key,
            "text": self.text,
            "value": self.value,
            "unit": unit or ("%" if self.key in PERCENT else "ratio"),
            "cells": self.cells(),
            "details": self.details,
        }
        if ROWS[self.key][0] and self.value is not None:
            row["goal"] = f"{'at most' if sign == '≤' else 'at least'} {number:g}"
            row["met"] = self.met
        return row | ({"profile-milliseconds": self.profile} if self.profile else {})

    def cells(self) -> tuple[str, str, str, str]:
        """Return the row for the table."""
        goal = ROWS[self.key][0]
        if self.value is None:
            return self.text, "not measured", goal, self.note.rstrip(".").lower()
        digits = 4 if self.key == "bytes" else 0 if self.value >= 100 else 2
        unit = "%" if self.key in PERCENT else self.goal[2]
        value = f"{self.value:.{digits}f} {unit}".strip()
        return self.text, value, goal, ("met" if self.met else "missed") if goal else ""


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
    save_text(path.with_suffix(".md"), markdown([row.cells() for row in rows]))


def markdown(cells: Sequence[Sequence[str]]) -> str:
    """Return the table of a report's rows."""
    lines = [COLUMNS, ("---",) * len(COLUMNS), *cells]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


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
