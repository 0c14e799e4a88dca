"""The tables of runs: accuracy beside the paper's, by class, and its spread over clients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from fedau_flwr.files import write_atomically
from simulations.config import LAST_ROUNDS
from simulations.report.paper import Published, published, shortened
from simulations.report.runs import Panel, Run, grouped, panels
from simulations.report.setting import Columns, Setting, display_value
from simulations.report.table import Cell, Spread, Table
from simulations.runs.summary import SHOWN_CLASSES
from simulations.tasks import Task
from simulations.tasks.arrays import PARTS

SPREADS = ("loss", "train_accuracy", "test_accuracy")


def tables(runs: Sequence[Run], *, each_seed: bool = False) -> list[Table]:
    """Return what there is to say about runs; with `each_seed`, accuracy in a row per run."""
    rows = (accuracy(runs, each_seed=each_seed), spread(runs))
    found = [*rows, *(by_class(panel) for panel in panels(runs))]
    return [table for table in found if table is not None]


def write(found: Sequence[Table], directory: Path) -> list[Path]:
    """Write tables as one Markdown file and a CSV file each, and return their paths."""
    directory.mkdir(parents=True, exist_ok=True)
    texts = {"tables.md": "\n".join(table.markdown() for table in found)}
    texts |= {f"{table.name}.csv": table.csv() for table in found}
    for name, text in texts.items():
        write_atomically(directory / name, partial(_write_text, text))
    return [directory / name for name in texts]


def _write_text(text: str, file: IO[bytes]) -> None:
    file.write(text.encode())


def accuracy(runs: Sequence[Run], *, each_seed: bool = False) -> Table:
    """Return train and test accuracy by setting, the paper's beside ours where settings match.

    A run of fewer rounds than the paper's stands beside it too, and its row says so.
    The seeds of a setting are one row with their mean, or with `each_seed` a row each.
    """
    columns = Columns.of(run.setting for run in runs)
    metric, percent = _metric(runs)
    numbers = [f"train {metric}", f"test {metric}"]
    names = ["data set", "pattern", *columns.names, "method", *numbers]
    papers = [f"paper: {name}" for name in numbers]
    table = Table(
        "accuracy",
        f"{metric.capitalize()} in %" if percent else metric.capitalize(),
        [*names, *papers, "train loss", "seeds", "remark"],
        remark=("Means" if each_seed else "Mean ± standard deviation over seeds, of means")
        + f" over the last {LAST_ROUNDS} rounds, or over the last tenth where that is less.",
    )

    def key(run: Run) -> tuple[Setting, int | None, int]:
        return run.setting, run.reached, run.seed if each_seed else 0

    for (setting, reached, _), group in grouped(runs, key).items():
        longer = shortened(setting)
        paper = None if reached else published(replace(setting, rounds=longer or setting.rounds))
        final = [run.summary.final for run in group]
        row: list[Cell] = [
            *_cells(setting, columns),
            *(_score([run.summary.score(part) for run in group], setting.task) for part in PARTS),
            *_published(paper),
            Spread.of([e["train_loss"] for e in final], scale=1.0, digits=3),
            ", ".join(str(run.seed) for run in group),
            _remark(group, reached, longer),
        ]
        table.rows.append(row)
    return table.without_empty_columns()


def _metric(runs: Sequence[Run]) -> tuple[str, bool]:
    """Return what the tasks' metric is called, and whether it is in %."""
    found = {(run.setting.task.metric.replace("_", " "), run.setting.task.percent) for run in runs}
    return found.pop() if len(found) == 1 else ("score", False)


def _score(values: Sequence[object], task: Task) -> Spread:
    return Spread.of(values) if task.percent else Spread.of(values, scale=1.0, digits=3)


def _cells(setting: Setting, columns: Columns) -> list[Cell]:
    """Return the cells of a row that say what was run."""
    head = [display_value(setting, key) for key in ("task", "pattern")]
    return [*head, *columns.cells(setting), display_value(setting, "method")]


def _published(paper: Published | None) -> list[Cell]:
    return ["", ""] if paper is None else [Spread(*paper.train), Spread(*paper.test)]


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
    numbers = ["loss", "train accuracy", "test accuracy"]
    table = Table(
        "spread",
        "Standard deviation over clients, accuracy in %",
        ["data set", "pattern", *columns.names, "method", *numbers]
        + [f"paper: {name}" for name in numbers],
        remark="Mean ± standard deviation over seeds, of the final model.",
    )
    for setting, group in grouped(finished, lambda run: run.setting).items():
        paper = published(setting)
        values = [
            [np.nanstd(run.clients[key]) for run in group if run.clients is not None]
            for key in SPREADS
        ]
        cells: list[Cell] = ["", "", ""]
        if paper is not None and paper.spread is not None:
            cells = [f"{paper.spread[0]:.3f}", *(f"{value:.1f}" for value in paper.spread[1:])]
        table.rows.append(
            [
                *_cells(setting, columns),
                Spread.of(values[0], scale=1.0, digits=3),
                *(Spread.of(some) for some in values[1:]),
                *cells,
            ]
        )
    table = table.without_empty_columns()
    if "paper: loss" in table.header:
        table.remark += " The paper's loss has a unit of its own: compare the order of methods."
    return table


def by_class(panel: Panel) -> Table | None:
    """Return the test accuracy by class, those first whose owners come most often.

    Of many classes the outermost are shown.
    """
    runs = [run for some in panel.lines.values() for run in some if not run.reached]
    runs = [run for run in runs if run.class_participation is not None]
    if not runs:
        return None
    places = shown_places(len(class_order(runs[0])))
    lines = {name: [run for run in group if run in runs] for name, group in panel.lines.items()}
    lines = {name: group for name, group in lines.items() if group}
    values = {name: [class_accuracy(run) for run in group] for name, group in lines.items()}
    present = np.mean([class_participation(run) for run in runs], axis=0)
    table = Table(
        f"classes-{panel.name}",
        f"Test accuracy in % by class: {panel.title}",
        ["class", "participation", *lines],
        remark="Participation: the mean probability in % with which a sample is there.",
    )
    for name, place in zip(class_names(runs, places), places, strict=True):
        cells = [Spread.of([some[place] for some in values[line]]) for line in lines]
        table.rows.append([name, Spread(100 * present[place]), *cells])
    return table


def class_order(run: Run) -> NDArray[np.int64]:
    """Return the classes of a run, those first whose owners come most often."""
    if run.class_participation is None:
        raise ValueError(f"{run.directory.path} has no record of participation.")
    return np.argsort(-run.class_participation, kind="stable")


def class_accuracy(run: Run) -> NDArray[np.float64]:
    """Return the test accuracies of the classes in the order of `class_order`."""
    return run.summary.final["test_class_accuracy"][class_order(run)]


def class_participation(run: Run) -> NDArray[np.float64]:
    """Return how often the classes are there, in the order of `class_order`."""
    order = class_order(run)
    return np.zeros(len(order)) if (p := run.class_participation) is None else p[order]


def class_names(runs: Sequence[Run], places: NDArray[np.int64]) -> list[str]:
    """Return the names of the classes at these places in the order of participation.

    Which classes come often depends on the seed: over several seeds a name is a place.
    """
    if len({run.seed for run in runs}) > 1:
        return [f"no. {place + 1}" for place in places]
    classes = runs[0].setting.task.classes
    return [classes[number] for number in class_order(runs[0])[places]]


def shown_places(classes: int) -> NDArray[np.int64]:
    """Return the places in the order of classes that are shown: all, or the outermost."""
    places = np.arange(classes)
    half = SHOWN_CLASSES // 2
    return places if classes <= SHOWN_CLASSES else np.concatenate([places[:half], places[-half:]])
