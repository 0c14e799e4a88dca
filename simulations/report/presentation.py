"""Shows results: tables on the terminal and as files, and plots."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from simulations.config import ConfigError
from simulations.report.results import tables, write
from simulations.report.runs import Run, read_runs
from simulations.report.table import Table

KINDS = ("curves", "classes", "clients", "weights", "cutoff")
"""Of plots."""


def present(
    paths: Iterable[Path], where: Path, console: Console, *, each_seed: bool = False, **plots: Any
) -> None:
    """Print and write the tables of the runs in `paths`, and draw them.

    Runs that were interrupted before their first report are left out.
    """
    if runs := read_runs(paths):
        show_tables(runs, where, console, each_seed=each_seed)
        show_plots(runs, where, console, **plots)


def show_tables(
    runs: Sequence[Run], where: Path, console: Console, *, each_seed: bool = False
) -> None:
    """Print tables, of the classes only if there is one comparison, and write them to `where`."""
    found = tables(runs, each_seed=each_seed)
    of_classes = [table for table in found if table.name.startswith("classes-")]
    for table in found:
        if len(of_classes) == 1 or table not in of_classes:
            show(table, console)
    write_tables(found, where, console)


def write_tables(found: Sequence[Table], where: Path, console: Console) -> None:
    """Write tables to `where` and say which files."""
    _written(lambda: write(found, where), where, console)


def show(table: Table, console: Console) -> None:
    """Print a table; on a narrow terminal its lines are broken rather than cut off."""
    console.print(table.rich(), soft_wrap=True)


def show_plots(runs: Sequence[Run], where: Path, console: Console, **options: Any) -> bool:
    """Draw plots of these kinds and formats into `where`, say which, and whether there are any."""
    # Matplotlib takes a second, which no command without plots should wait for.
    from simulations.report.plots import draw_runs  # noqa: PLC0415

    return bool(_written(lambda: draw_runs(runs, where, **options), where, console))


def say_where(files: Sequence[Path], console: Console) -> None:
    """Say which files were written; a plot's two formats are one."""
    for file in files:
        if file.suffix != ".svg":
            more = " (and .svg)" if file.with_suffix(".svg") in files else ""
            console.print(f"{file}{more}", highlight=False, soft_wrap=True)


def _written(make: Callable[[], list[Path]], where: Path, console: Console) -> list[Path]:
    try:
        files = make()
    except OSError as error:
        reason = f"be a directory that can be written to ({error.strerror or error})"
        raise ConfigError(f"out is {str(where)!r}, but must {reason}.") from None
    say_where(files, console)
    return files
