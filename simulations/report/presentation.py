"""Shows results: tables on the terminal and as files, and plots."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

from rich.console import Console

from simulations.config import ConfigError
from simulations.report.plot_style import FORMATS
from simulations.report.plots import draw_runs
from simulations.report.results import tables, write
from simulations.report.runs import Run, read_runs
from simulations.report.table import Table
from simulations.runs.directory import RunDirectory


def present(
    paths: Iterable[Path],
    where: Path,
    console: Console,
    *,
    kinds: Sequence[str],
    formats: Sequence[str] = FORMATS,
    each_seed: bool = False,
) -> list[Path]:
    """Print and write the tables of the runs in `paths`, draw them, and return the files.

    Runs that were interrupted before their first report are left out.
    """
    reported = [path for path in paths if RunDirectory(path).metrics()]
    if not reported:
        return []
    runs = read_runs(reported, where=where)
    files = show_tables(runs, where, console, each_seed=each_seed)
    return files + show_plots(runs, where, console, kinds=kinds, formats=formats)


def show_tables(
    runs: Sequence[Run], where: Path, console: Console, *, each_seed: bool = False
) -> list[Path]:
    """Print tables, of the classes only if there is one comparison, and write them to `where`."""
    found = tables(runs, each_seed=each_seed)
    several = sum(table.name.startswith("classes-") for table in found) > 1
    for table in found:
        if not (several and table.name.startswith("classes-")):
            show(table, console)
    return write_tables(found, where, console)


def write_tables(found: Sequence[Table], where: Path, console: Console) -> list[Path]:
    """Write tables to `where` and say which files."""
    return _written(lambda: write(found, where), where, console)


def show(table: Table, console: Console) -> None:
    """Print a table; on a narrow terminal its lines are broken rather than cut off."""
    console.print(table.rich(), soft_wrap=True)


def show_plots(
    runs: Sequence[Run],
    where: Path,
    console: Console,
    *,
    kinds: Sequence[str],
    formats: Sequence[str] = FORMATS,
) -> list[Path]:
    """Draw plots into `where` and say which."""
    make = partial(draw_runs, runs, where, kinds=kinds, formats=formats)
    return _written(make, where, console)


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
