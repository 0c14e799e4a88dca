"""What comes out of a run in the end: means over the last rounds."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from simulations.config import LAST_ROUNDS, RunConfig
from simulations.runs.directory import RunDirectory
from simulations.tasks.arrays import PARTS

SHOWN_CLASSES = 10


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
    def of(cls, directory: Path) -> Self:
        """Summarise the run in `directory`."""
        run = RunDirectory(directory)
        config, metrics = run.config(), run.metrics()
        if not metrics:
            raise ValueError(f"{directory} holds no results yet.")
        end, status = metrics[-1]["round"], run.outcome()["status"]
        rounds = 1 if status == "diverged" else last_rounds(config.rounds)
        window = [e for e in metrics if e["round"] > end - rounds]
        keys = [f"{part}_{kind}" for part in PARTS for kind in ("loss", config.task.metric)]
        keys += ["test_class_accuracy"] if config.task.classes else []
        final = {k: np.mean([np.array(e[k], np.float64) for e in window], axis=0) for k in keys}
        return cls(config, status, final)

    def score(self, part: str) -> NDArray[np.float64]:
        """Return the task's metric on the part ``train`` or ``test``."""
        return self.final[f"{part}_{self.config.task.metric}"]
