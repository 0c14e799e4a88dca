"""The table and the JSON file of a benchmark."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from fedau_flwr.files import write_atomically
from simulations.bench.row import Row

COLUMNS = ("measured", "value", "goal", "")


def show(rows: Sequence[Row], machine: dict[str, Any], console: Console) -> None:
    """Print the table, and where the time goes for every goal that was missed."""
    table = Table(*COLUMNS, title=f"{machine['processor']}, {machine['cores']} cores")
    for row in rows:
        table.add_row(*_cells(row))
    console.print(table)
    for row in rows:
        if row.note:
            console.print(row.note, highlight=False)
    for row in rows:
        if row.met or not row.profile:
            continue
        console.print(f"Missed: {row.text}. Where the time goes, in milliseconds:")
        for name, milliseconds in row.profile.items():
            console.print(f"  {name}: {milliseconds:.1f}", highlight=False)


def save(path: Path, rows: Sequence[Row], **facts: Any) -> None:
    """Write everything that was measured, and the table as Markdown beside it."""
    content = {**facts, "rows": [row.to_dict() for row in rows]}
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, lambda file: file.write(text.encode()))
    lines = [COLUMNS, ("---",) * len(COLUMNS), *(_cells(row) for row in rows)]
    table = "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
    write_atomically(path.with_suffix(".md"), lambda file: file.write(table.encode()))


def _cells(row: Row) -> tuple[str, str, str, str]:
    sign = "≤" if row.side == "at most" else "≥"
    digits = 4 if row.key == "bytes" else 2
    value = f"{row.value:.{digits}f} {row.unit}".strip()
    goal = f"{sign} {row.goal:g} {row.unit}".strip()
    return row.text, value, goal, "met" if row.met else "missed"
