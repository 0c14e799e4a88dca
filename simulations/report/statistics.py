"""What a reviewer asks of means over seeds: paired differences, and the paper's beside ours."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulations.config import ConfigError
from simulations.methods import Method
from simulations.report.paper import SEEDS, Published, not_run, published
from simulations.report.runs import Panel, Run, grouped, panels
from simulations.report.setting import Columns, Setting
from simulations.report.table import Cell, Spread, Table
from simulations.runs.summary import last_rounds
from simulations.tasks.arrays import PARTS

CONFIDENCE = 0.95
_BESIDE = ("ours", "paper", "difference")


@dataclass(frozen=True)
class PaperCell:
    """A number of the paper beside ours: means and standard deviations over seeds, in %."""

    setting: Setting
    part: str
    ours: Spread
    theirs: Spread
    seeds: tuple[int, ...]

    @property
    def difference(self) -> float:
        """Ours minus the paper's."""
        return self.ours.mean - self.theirs.mean

    @property
    def errors(self) -> float | None:
        """The difference in standard errors of both means; None for a single seed."""
        if self.ours.std is None or self.theirs.std is None:
            return None
        own, other = self.ours.std**2 / len(self.seeds), self.theirs.std**2 / SEEDS
        return self.difference / float(np.sqrt(own + other)) if own + other else None


def paper_cells(runs: Sequence[Run]) -> list[PaperCell]:
    """Return what runs that have ended have in common with the paper's tables."""
    found = []
    for setting, group in grouped(_ended(runs), lambda run: run.setting).items():
        if (paper := published(setting)) is not None:
            seeds = tuple(run.seed for run in group)
            for part in PARTS:
                ours = Spread.of([run.summary.score(part) for run in group])
                found.append(PaperCell(setting, part, ours, _published(paper, part), seeds))
    return found


def _published(paper: Published, part: str) -> Spread:
    return Spread(*(paper.train if part == "train" else paper.test))


def _ended(runs: Sequence[Run]) -> list[Run]:
    return [run for run in runs if not run.reached]


def against_paper(runs: Sequence[Run]) -> Table | None:
    """Return the cells of the paper's table beside ours, if several seeds stand beside any."""
    cells = paper_cells(runs)
    if all(cell.errors is None for cell in cells):
        return None
    rows: dict[Setting, list[PaperCell]] = grouped(cells, lambda cell: cell.setting)
    columns = Columns.of(rows)
    table = Table(
        "paper",
        "Accuracy in % beside the paper's",
        [*columns.names, *(f"{part}: {text}" for part in PARTS for text in _BESIDE), "seeds"],
        remark=f"Mean ± standard deviation over seeds; the paper has {SEEDS}. The difference is "
        "also given in standard errors (SE) of both means.",
    )
    whole = {**{setting: [] for setting in not_run(rows)}, **rows}
    for setting in sorted(whole, key=Setting.order):
        numbers: list[Cell] = []
        for cell in whole[setting]:
            errors = "" if cell.errors is None else f" ({cell.errors:+.1f} SE)"
            numbers += [cell.ours, cell.theirs, f"{cell.difference:+.1f}{errors}"]
        if not numbers and (paper := published(setting)) is not None:
            numbers = [c for part in PARTS for c in ("not run", _published(paper, part), "")]
        seeds = ", ".join(str(seed) for cell in whole[setting][:1] for seed in cell.seeds)
        table.rows.append([*columns.cells(setting), *numbers, seeds])
    return table


def paired(runs: Sequence[Run], reference: Method) -> list[Table]:
    """Return, for each comparison, the differences of its methods to `reference` seed by seed.

    Methods are compared under the same data, participation and batches, so the differences of the
    seeds vary less than the accuracies do.
    """
    found = [table for panel in panels(_ended(runs)) if (table := _paired(panel, reference))]
    if not found:
        raise ConfigError(
            f"paired is {reference.label!r}, but must be a method of these runs that another one "
            "shares a seed with."
        )
    return found


def _paired(panel: Panel, reference: Method) -> Table | None:
    lines = {label: {run.seed: run for run in some} for label, some in panel.lines.items()}
    base = next((s for s in lines.values() if _method(s) == reference), None)
    if base is None or len(lines) == 1 or not panel.task.percent:
        return None
    goals = best_average(list(lines.values()))
    table = Table(
        f"paired-{panel.name}",
        f"Differences to {reference.label} in points: {panel.title}",
        ["method", "seeds", *(text for part in PARTS for text in (f"{part} accuracy", "95 %")),
         "rounds to the best average", "spread over clients", "worst class"],
        remark="Means over seeds of differences seed by seed, with their 95 % confidence interval "
        "by Student's t. Rounds: until the moving average of the test accuracy reaches what the "
        "best plain average ends with. Spread: standard deviation over clients of the training "
        "accuracy in %. Worst class: the lowest test accuracy of a class in %.",
    )  # fmt: skip
    for label, some in lines.items():
        seeds = [seed for seed in some if seed in base]
        if not seeds:
            continue
        row: list[Cell] = [label, ", ".join(map(str, seeds))]
        for part in PARTS:
            values = [some[s].summary.score(part) - base[s].summary.score(part) for s in seeds]
            row += ["", ""] if some is base else _difference(values)
        own = [some[seed] for seed in seeds]
        row += [_rounds(own, goals), _client_spread(own), _worst_class(own)]
        table.rows.append(row)
    return table.without_empty_columns()


def _method(runs: dict[int, Run]) -> Method | None:
    return next(iter(runs.values())).setting.method


def _difference(values: Sequence[object]) -> list[Cell]:
    """Return the mean difference in points and its confidence interval."""
    points = 100 * np.array(values, np.float64)
    text = f"{points.mean():+.2f}"
    if len(points) == 1:
        return [text, ""]
    low, high = confidence_interval(points)
    return [text, f"{low:+.2f} to {high:+.2f}"]


def confidence_interval(values: NDArray[np.float64]) -> tuple[float, float]:
    """Return the interval in which the mean lies with 95 % confidence, by Student's t."""
    # It takes longer to import than everything else that the commands need.
    from scipy import stats  # type: ignore[import-untyped]  # noqa: PLC0415

    half = stats.t.ppf((1 + CONFIDENCE) / 2, len(values) - 1) * stats.sem(values)
    return float(values.mean() - half), float(values.mean() + half)


def best_average(lines: Sequence[dict[int, Run]]) -> dict[int, float]:
    """Return the final test accuracy of the best plain average by seed."""
    found: dict[int, float] = {}
    for some in lines:
        if (method := _method(some)) is not None and method.average:
            for seed, run in some.items():
                found[seed] = max(found.get(seed, 0.0), float(run.summary.score("test")))
    return found


def rounds_to(run: Run, goal: float) -> int | None:
    """Return the first round from which the mean over a window of test accuracies is at `goal`.

    The window is as wide as the one that results are averaged over, so that a lucky report does
    not count; None if it is never reached.
    """
    when = np.array([entry["round"] for entry in run.metrics])
    what = np.array([entry[f"test_{run.setting.task.metric}"] for entry in run.metrics], float)
    for number in when:
        window = (when > number - last_rounds(run.setting.rounds)) & (when <= number)
        if what[window].mean() >= goal - 1e-9:  # sums round otherwise in another order
            return int(number)
    return None


def _rounds(runs: Sequence[Run], goals: dict[int, float]) -> Cell:
    found = [rounds_to(run, goals[run.seed]) for run in runs if run.seed in goals]
    reached = [number for number in found if number is not None]
    if not reached:
        return "never" if found else ""
    text = str(Spread.of(reached, scale=1.0, digits=0))
    return text if len(reached) == len(found) else f"{text} ({len(reached)} of {len(found)} seeds)"


def _client_spread(runs: Sequence[Run]) -> Cell:
    values = [np.nanstd(run.clients["train_accuracy"]) for run in runs if run.clients is not None]
    return Spread.of(values) if values else ""


def _worst_class(runs: Sequence[Run]) -> Cell:
    if not runs[0].setting.task.classes:
        return ""
    return Spread.of([np.nanmin(run.summary.final["test_class_accuracy"]) for run in runs])
