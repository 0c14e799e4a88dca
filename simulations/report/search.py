"""The paper's grid search for step sizes: γ with the first η, then η at the best γ."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from simulations.cli.invocation import method_settings, run_name
from simulations.config import RunConfig
from simulations.methods import METHODS
from simulations.report.table import Cell, Spread, Table
from simulations.runs.directory import RunDirectory

ROUNDS = 500
"""The training loss after this many rounds decides."""


LOCAL_GRID = (0.01, 0.0178, 0.0316, 0.0562, 0.1, 0.178, 0.316)
GLOBAL_GRID = (1.0, 1.78, 3.16, 5.62, 10.0, 17.8, 31.6)
"""Powers of ten in steps of a quarter, rounded as in the paper's table."""

Grids = tuple[Sequence[float], Sequence[float]]
"""Those of γ and η, ascending; γ is searched for with the first η."""

RunAll = Callable[[list[RunConfig]], bool]
"""Runs what is missing; False if it was interrupted."""


@dataclass(frozen=True)
class Candidate:
    """Step sizes, and the training losses of a method's seeds with them."""

    lr: float
    server_lr: float
    losses: tuple[float, ...]

    @property
    def loss(self) -> float:
        """The mean loss; infinite if any is no number."""
        mean = float(np.mean(self.losses))
        return mean if math.isfinite(mean) else math.inf


class Search:
    """A search over both grids for several methods, with these settings of the runs.

    Losses are means over seeds. Each run has its own directory below `parent`.
    """

    def __init__(
        self,
        methods: Sequence[str],
        values: Mapping[str, Any],
        seeds: Sequence[int],
        parent: Path,
        *,
        grids: Grids = (LOCAL_GRID, GLOBAL_GRID),
    ) -> None:
        rounds = {"num_server_rounds": ROUNDS, **values}
        self._values = {"evaluate_every": rounds["num_server_rounds"], **rounds}
        self._seeds = seeds
        self._parent = parent
        self._local, self._global = grids
        self._found: dict[str, dict[tuple[float, float], Candidate]] = {m: {} for m in methods}
        self.rounds = self._config(methods[0], self._local[0], 1.0, seeds[0]).rounds

    def run(self, run_all: RunAll) -> bool:
        """Run both stages; returns False if it was interrupted."""
        first = [(method, lr, self._global[0]) for method in self._found for lr in self._local]
        if not self._run_stage(first, run_all):
            return False
        best = {method: self.choice(method) for method in self._found if _has_global_step(method)}
        second = [(m, found.lr, eta) for m, found in best.items() if found for eta in self._global]
        return not second or self._run_stage(second, run_all)

    def _run_stage(self, points: list[tuple[str, float, float]], run_all: RunAll) -> bool:
        configs = {point: [self._config(*point, seed) for seed in self._seeds] for point in points}
        if not run_all([config for some in configs.values() for config in some]):
            return False
        for (method, lr, server_lr), some in configs.items():
            losses = tuple(_final_loss(Path(config.run_dir)) for config in some)
            self._found[method][lr, server_lr] = Candidate(lr, server_lr, losses)
        return True

    def choice(self, method: str) -> Candidate | None:
        """Return the best step sizes so far, None if all have diverged."""
        best = min(self._found[method].values(), key=lambda candidate: candidate.loss)
        return best if math.isfinite(best.loss) else None

    def table(self) -> Table:
        """Return the losses of all candidates, with the choices."""
        table = Table(
            "search",
            f"Training loss after round {self.rounds}",
            ["method", "γ", "η", "training loss", "remark"],
        )
        for method, found in self._found.items():
            choice, has_global_step = self.choice(method), _has_global_step(method)
            name = self._config(method, 1.0, 1.0, self._seeds[0]).algorithm.label
            for candidate in found.values():
                eta = f"{candidate.server_lr:g}" if has_global_step else "none"
                remark = self._remark(candidate, has_global_step) if candidate is choice else ""
                loss: Cell = "no number"
                if math.isfinite(candidate.loss):
                    loss = Spread.of(candidate.losses, scale=1.0, digits=4)
                table.rows.append([name, f"{candidate.lr:g}", eta, loss, remark])
        return table

    def _config(self, method: str, lr: float, server_lr: float, seed: int) -> RunConfig:
        steps = {"lr": lr, "server_lr": server_lr if _has_global_step(method) else 0.0}
        config = RunConfig(**{**self._values, **method_settings(method), **steps, "seed": seed})
        name = f"{run_name(config)}-lr-{lr:g}-server-lr-{server_lr:g}"
        return replace(config, run_dir=str(self._parent / name))

    def _remark(self, choice: Candidate, has_global_step: bool) -> str:
        at_edge = choice.lr in (self._local[0], self._local[-1])
        at_edge |= has_global_step and choice.server_lr == self._global[-1]
        return "chosen, at the edge of the grid" if at_edge else "chosen"


def _has_global_step(method: str) -> bool:
    return METHODS.find(method_settings(method)["method"]).server_step


def _final_loss(path: Path) -> float:
    """Return the training loss of a run's last round; infinity if it is no number."""
    run = RunDirectory(path)
    loss = run.metrics()[-1]["train_loss"]
    return math.inf if loss is None or run.outcome()["status"] == "diverged" else float(loss)
