"""What comes out of runs in the end: means over the last rounds, and over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from simulations.config import LAST_ROUNDS, RunConfig
from simulations.run_directory import RunDirectory

SHOWN_CLASSES = 10
VALUES = ("train_accuracy", "test_accuracy", "train_loss", "test_loss", "test_class_accuracy")


def last_rounds(rounds: int) -> int:
    """Return over how many of the last rounds results are averaged: 200, a tenth of short runs."""
    return min(LAST_ROUNDS, max(1, rounds // 10))


@dataclass(frozen=True, eq=False)
class Summary:
    """A finished run: its settings, and its metrics as means over the last rounds.

    Of a run that diverged it is the last report: the model stays as it is from there on. NaN stands
    for what is no number.
    """

    config: RunConfig
    status: str
    final: dict[str, NDArray[np.float64]]

    @classmethod
    def of(cls, directory: Path) -> Summary:
        """Summarise the run in `directory`."""
        run = RunDirectory(directory)
        config, metrics = run.config(), run.metrics()
        if not metrics:
            raise ValueError(f"{directory} holds no results yet.")
        end, status = metrics[-1]["round"], run.outcome()["status"]
        rounds = 1 if status == "diverged" else last_rounds(config.rounds)
        window = [e for e in metrics if e["round"] > end - rounds]
        final = {key: np.mean([_floats(e[key]) for e in window], axis=0) for key in VALUES}
        return cls(config, status, final)


def _floats(value: Any) -> NDArray[np.float64]:
    return np.array(value, dtype=np.float64)


def label(config: RunConfig) -> str:
    """Return the name of a method, with FedAU's cutoff."""
    if config.method != "fedau":
        return config.method
    return f"fedau K={config.cutoff}" if config.cutoff else "fedau K=∞"


def comparison(directories: Sequence[Path]) -> tuple[Table, Table]:
    """Return accuracies by method, and by method and class, mean ± std over seeds, in per cent."""
    groups: dict[str, list[Summary]] = {}
    for directory in directories:
        summary = Summary.of(directory)
        groups.setdefault(label(summary.config), []).append(summary)
    overall = Table("method", "train accuracy", "test accuracy", "train loss", "seeds")
    for name, runs in groups.items():
        overall.add_row(
            name,
            _spread([run.final["train_accuracy"] for run in runs]),
            _spread([run.final["test_accuracy"] for run in runs]),
            _spread([run.final["train_loss"] for run in runs], scale=1.0, digits=3),
            ", ".join(str(run.config.seed) for run in runs),
        )
    return overall, _by_class(groups, directories[0])


def _by_class(groups: dict[str, list[Summary]], directory: Path) -> Table:
    """Return the test accuracies by class under the first seed.

    The classes whose owners come most often are first; of many classes the outermost are shown.
    """
    config = RunDirectory(directory).config()
    participation = _class_participation(directory)
    order = np.argsort(-participation, kind="stable")
    if len(order) > SHOWN_CLASSES:
        half = SHOWN_CLASSES // 2
        order = np.concatenate([order[:half], order[-half:]])
    table = Table("test accuracy of", *(config.spec.classes[number] for number in order))
    table.title = f"by class, seed {config.seed}"
    table.add_row("(participation)", *(f"{100 * participation[n]:.1f}" for n in order))
    for name, runs in groups.items():
        same = [run.final["test_class_accuracy"] for run in runs if run.config.seed == config.seed]
        table.add_row(name, *(_spread([values[number] for values in same]) for number in order))
    return table


def _class_participation(directory: Path) -> NDArray[np.float64]:
    """Return the mean probability with which a sample of each class is there in a round."""
    with np.load(RunDirectory(directory).participation_file) as file:
        counts = file["class_shares"] * file["sizes"][:, None]
        return file["probability"] @ counts / np.maximum(counts.sum(axis=0), 1)


def _spread(values: Sequence[Any], *, scale: float = 100.0, digits: int = 1) -> str:
    numbers = scale * np.array(values, dtype=np.float64)
    if not np.isfinite(numbers).all():
        return "no number"
    text = f"{numbers.mean():.{digits}f}"
    return text if len(numbers) == 1 else f"{text} ± {numbers.std(ddof=1):.{digits}f}"
