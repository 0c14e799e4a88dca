"""The tables of runs: accuracy beside the paper's, by class, and its spread over clients.

They are shown on a terminal and written to files, and plots go with them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from fedau_flwr.files import save_text
from simulations.config import LAST_ROUNDS, ConfigError
from simulations.methods import Method
from simulations.report.paper import published, shortened
from simulations.report.privacy import private
from simulations.report.runs import Classes, Panel, Run, grouped, panels, read_runs
from simulations.report.setting import Columns, Setting
from simulations.report.statistics import against_paper, paired
from simulations.report.table import Cell, Spread, Table
from simulations.runs.summary import SHOWN_CLASSES
from simulations.tasks.arrays import PARTS

KINDS = ("curves", "classes", "clients", "weights", "cutoff", "paper")
"""Of plots."""

SPREADS = ("loss", "train_accuracy", "test_accuracy")


def tables(
    runs: Sequence[Run], *, each_seed: bool = False, reference: Method | None = None
) -> list[Table]:
    """Return what there is to say about runs.

    With `each_seed` accuracy has a row per run; with a `reference` the methods are compared with it
    seed by seed.
    """
    rows = (accuracy(runs, each_seed=each_seed), against_paper(runs), private(runs), spread(runs))
    pairs = paired(runs, reference) if reference else ()
    found = [*rows, *pairs, *(by_class(panel) for panel in panels(runs))]
    return [table for table in found if table is not None]


def write(found: Sequence[Table], directory: Path) -> list[Path]:
    """Write tables as one Markdown file and a CSV file each, and return their paths."""
    directory.mkdir(parents=True, exist_ok=True)
    texts = {"tables.md": "\n".join(table.markdown() for table in found)}
    texts |= {f"{table.name}.csv": table.csv() for table in found}
    for name, text in texts.items():
        save_text(directory / name, text)
    return [directory / name for name in texts]


def accuracy(runs: Sequence[Run], *, each_seed: bool = False) -> Table:
    """Return train and test accuracy by setting, the paper's beside ours where settings match.

    A run of fewer rounds than the paper's stands beside it too, and its row says so.
    The seeds of a setting are one row with their mean, or with `each_seed` a row each.
    """
    columns = Columns.of(run.setting for run in runs)
    kinds = {(run.setting.task.metric.replace("_", " "), run.setting.task.percent) for run in runs}
    metric, percent = kinds.pop() if len(kinds) == 1 else ("score", False)
    numbers = [f"train {metric}", f"test {metric}"]
    papers = [f"paper: {name}" for name in numbers]
    table = Table(
        "accuracy",
        metric.capitalize() + (" in %" if percent else ""),
        [*columns.names, *numbers, *papers, "train loss", "seeds", "remark"],
        remark=("Means" if each_seed else "Mean ± standard deviation over seeds, of means")
        + f" over the last {LAST_ROUNDS} rounds, or over the last tenth where that is less.",
    )

    def key(run: Run) -> tuple[Setting, int | None, int]:
        return run.setting, run.reached, run.seed if each_seed else 0

    for (setting, reached, _), group in grouped(runs, key).items():
        longer = shortened(setting)
        paper = None if reached else published(replace(setting, rounds=longer or setting.rounds))
        scale, digits = (100.0, 1) if setting.task.percent else (1.0, 3)
        scores = [[run.summary.score(part) for run in group] for part in PARTS]
        row: list[Cell] = [
            *columns.cells(setting),
            *(Spread.of(values, scale=scale, digits=digits) for values in scores),
            *(["", ""] if paper is None else [Spread(*paper.train), Spread(*paper.test)]),
            Spread.of([run.summary.final["train_loss"] for run in group], scale=1.0, digits=3),
            ", ".join(str(run.seed) for run in group),
            _remark(group, reached, longer),
        ]
        table.rows.append(row)
    return table.without_empty_columns()


def _remark(group: Sequence[Run], reached: int | None, longer: int | None) -> str:
    rounds = group[0].setting.rounds
    if reached:
        return f"after round {reached} of {rounds}"
    remarks = []
    if diverged := sum(run.diverged for run in group):
        remarks.append(f"{diverged} of {len(group)} diverged")
    if longer:
        remarks.append(f"{rounds:,} of the paper's {longer:,} rounds")
    return ", ".join(remarks)


def spread(runs: Sequence[Run]) -> Table | None:
    """Return the standard deviation over clients of loss and accuracy, of finished runs."""
    finished = [run for run in runs if run.clients is not None and run.setting.task.percent]
    if not finished:
        return None
    columns = Columns.of(run.setting for run in runs)
    numbers = [key.replace("_", " ") for key in SPREADS]
    table = Table(
        "spread",
        "Standard deviation over clients, accuracy in %",
        [*columns.names, *numbers, *(f"paper: {name}" for name in numbers)],
        remark="Mean ± standard deviation over seeds, of the final model.",
    )
    for setting, group in grouped(finished, lambda run: run.setting).items():
        paper, held = published(setting), [run.clients for run in group if run.clients]
        values = [[np.nanstd(clients[key]) for clients in held] for key in SPREADS]
        ours = [Spread.of(values[0], scale=1.0, digits=3), *map(Spread.of, values[1:])]
        theirs = ["", "", ""]
        if paper is not None and paper.spread is not None:
            theirs = [f"{paper.spread[0]:.3f}", *(f"{value:.1f}" for value in paper.spread[1:])]
        table.rows.append([*columns.cells(setting), *ours, *theirs])
    table = table.without_empty_columns()
    if "paper: loss" in table.header:
        table.remark += " The paper's loss has a unit of its own: compare the order of methods."
    return table


def by_class(panel: Panel) -> Table | None:
    """Return the test accuracy by class, those first whose owners come most often."""
    lines = panel.having(lambda run: None if run.reached else run.classes)
    if not lines:
        return None
    table = Table(
        f"classes-{panel.name}",
        f"Test accuracy in % by class: {panel.title}",
        ["class", "participation", *lines],
        remark="Participation: the mean probability in % with which a sample is there.",
    )
    for place, name, present in zip(*shown_classes(lines), strict=True):
        cells = [Spread.of([run.accuracy[place] for run in some]) for some in lines.values()]
        table.rows.append([name, Spread(100 * present), *cells])
    return table


def shown_classes(
    lines: Mapping[str, Sequence[Classes]],
) -> tuple[NDArray[np.int64], list[str], NDArray[np.float64]]:
    """Return places in the order of classes, their names, and how often their samples are there.

    Of many classes the outermost are shown. Which classes come often depends on the seed: over
    several seeds a name is a place.
    """
    runs = [run for some in lines.values() for run in some]
    places, half = np.arange(len(runs[0].names)), SHOWN_CLASSES // 2
    if len(places) > SHOWN_CLASSES:
        places = np.concatenate([places[:half], places[-half:]])
    several = len({run.seed for run in runs}) > 1
    names = [f"no. {place + 1}" if several else runs[0].names[place] for place in places]
    return places, names, np.mean([run.participation for run in runs], axis=0)[places]


def present(
    paths: Iterable[Path], where: Path, console: Console, *, each_seed: bool = False,
    copied_from: Path | None = None, **plots: Any,
) -> None:  # fmt: skip
    """Print and write the tables of the runs in `paths` below `where`, draw them, make their page.

    Runs that were interrupted before their first report are left out. The page is made of what
    they were copied from, which knows more.
    """
    from simulations.page.document import write_report  # noqa: PLC0415 -- it needs reports, as we do

    paths = list(paths)
    if runs := read_runs(paths):
        show_tables(runs, where, console, each_seed=each_seed)
        show_plots(runs, where, console, **plots)
        ids = [path.relative_to(where).as_posix() for path in paths]
        page = where / "report.html"
        say_where([write_report(copied_from or where, page, only=ids)], console)


def show_tables(runs: Sequence[Run], where: Path, console: Console, **options: Any) -> None:
    """Print tables, of the classes only if there is one comparison, and write them to `where`."""
    found = tables(runs, **options)
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
