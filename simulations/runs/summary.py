"""What comes out of a run in the end: means over the last rounds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulations.config import LAST_ROUNDS, RunConfig
from simulations.runs.directory import RunDirectory

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
