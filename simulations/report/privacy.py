"""What privacy costs, and what separation does to the weights."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from simulations.report.runs import Run
from simulations.report.table import Cell, Spread, Table
from simulations.tasks.arrays import PARTS

REMARK = (
    "Accuracy in %, mean over the last rounds. ω is a client's weight after the last round, its "
    "rate how often it was in a sum, p how often it is there; means over clients ± their standard "
    "deviation. ω · rate is 1 where weights make up for absence, rests included."
)


def private(runs: Sequence[Run]) -> Table | None:
    """Return privacy, ε, accuracy and weights of each run, if any of them is private."""
    if not any(run.summary.config.protection.private for run in runs):
        return None
    header = ["privacy", "seed", "ε", "ε (Rényi)", "train", "test",
              "clients in a sum", "ω · rate", "ω · p"]  # fmt: skip
    order = sorted(runs, key=lambda run: (run.summary.config.protection.order(), run.seed))
    return Table("privacy", "Privacy and weights", header, [_row(run) for run in order], REMARK)


def _row(run: Run) -> list[Cell]:
    last = run.metrics[-1]
    spent = [f"{last[key]:.2f}" if key in last else "" for key in ("epsilon", "epsilon_renyi")]
    percent = 100.0 if run.setting.task.percent else 1.0
    final = [Spread.of([run.summary.score(part)], scale=percent) for part in PARTS]
    weights: list[Cell] = ["", "", ""]
    if run.participation is not None and "weight" in run.participation:
        kept, rounds = run.participation, run.setting.rounds
        rate, weight = kept["counted"] / rounds, kept["weight"]
        weights = [f"{rate.sum():.1f}", _over(weight * rate), _over(weight * kept["probability"])]
    return [run.summary.config.privacy, str(run.seed), *spent, *final, *weights]


def _over(values: NDArray[np.float64]) -> Spread:
    return Spread.of(values.tolist(), scale=1.0, digits=2)
