"""The table and the JSON file of a benchmark."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from simulations.bench.row import Row
from simulations.run_directory import write_atomically


def show(rows: Sequence[Row], machine: dict[str, Any], console: Console) -> None:
    """Print the table, and where the time goes for every goal that was missed."""
    table = Table(
        "measured", "value", "goal", "", title=f"{machine['processor']}, {machine['cores']} cores"
    )
    for row in rows:
        sign = "≤" if row.side == "at most" else "≥"
        digits = 4 if row.key == "bytes" else 2
        value = f"{row.value:.{digits}f} {row.unit}".strip()
        goal = f"{sign} {row.goal:g} {row.unit}".strip()
        table.add_row(row.text, value, goal, "met" if row.met else "missed")
    console.print(table)
    for row in rows:
        if row.met or not row.profile:
            continue
        console.print(f"Missed: {row.text}. Where the time goes, in milliseconds:")
        for name, milliseconds in row.profile.items():
            console.print(f"  {name}: {milliseconds:.1f}", highlight=False)


def save(path: Path, rows: Sequence[Row], **facts: Any) -> None:
    """Write everything that was measured."""
    content = {**facts, "rows": [row.to_dict() for row in rows]}
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, lambda file: file.write(text.encode()))
