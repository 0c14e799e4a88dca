"""The paper's grid search for step sizes: γ with η = 1 first, then η at the best γ."""

from __future__ import annotations

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


def _grid(first: float, last: float) -> tuple[float, ...]:
    """Return powers of ten in steps of a quarter, rounded as in the paper's table."""
    count = round((last - first) / 0.25) + 1
    return tuple(float(f"{10 ** (first + 0.25 * step):.3g}") for step in range(count))


LOCAL_GRID, GLOBAL_GRID = _grid(-2, -0.5), _grid(0, 1.5)

RunAll = Callable[[list[RunConfig]], bool]
"""Runs what is missing; False if it was interrupted."""


@dataclass(frozen=True)
class Candidate:
    """Step sizes of a method, and the training losses of its seeds with them."""

    method: str
    lr: float
    server_lr: float
    losses: tuple[float, ...]

    @property
    def loss(self) -> float:
        """The mean loss; infinite if any is no number."""
        mean = float(np.mean(self.losses))
        return mean if math.isfinite(mean) else math.inf


class Search:
    """A search over both grids for several methods.

    Parameters
    ----------
    methods : Sequence[str]
        As the option --methods has them.
    values : Mapping[str, Any]
        Settings of the runs.
    seeds : Sequence[int]
        Losses are means over these.
    parent : Path
        The directory below which each run has its own.
    """

    def __init__(
        self, methods: Sequence[str], values: Mapping[str, Any], seeds: Sequence[int], parent: Path
    ) -> None:
        self._methods = methods
        self._values = {"num_server_rounds": ROUNDS, **values}
        self._seeds = seeds
        self._parent = parent
        self.rounds = self._config(methods[0], LOCAL_GRID[0], 1.0, seeds[0]).rounds
        self.stages: dict[str, list[list[Candidate]]] = {method: [] for method in methods}

    def first(self) -> list[RunConfig]:
        """Return the runs of the first stage."""
        return [c for method in self._methods for lr in LOCAL_GRID for c in self._runs(method, lr)]

    def second(self) -> list[RunConfig]:
        """Return the runs of the second stage, after the first one has been read."""
        configs = []
        for method in self._methods:
            best = self.choice(method)
            if best is not None and self._has_global_step(method):
                for server_lr in GLOBAL_GRID:
                    configs += self._runs(method, best.lr, server_lr)
        return configs

    def run(self, run_all: RunAll) -> bool:
        """Run both stages; returns False if it was interrupted."""
        if not run_all(self.first()):
            return False
        for method in self._methods:
            self.stages[method] = [[self._candidate(method, lr, 1.0) for lr in LOCAL_GRID]]
        second = self.second()
        if second and not run_all(second):
            return False
        for method in self._methods:
            best = self.choice(method)
            if best is not None and self._has_global_step(method):
                stage = [self._candidate(method, best.lr, server_lr) for server_lr in GLOBAL_GRID]
                self.stages[method].append(stage)
        return True

    def choice(self, method: str) -> Candidate | None:
        """Return the best step sizes so far, None if all have diverged."""
        best = min(self.stages[method][-1], key=lambda candidate: candidate.loss)
        return best if math.isfinite(best.loss) else None

    def table(self) -> Table:
        """Return the losses of all candidates, with the choices."""
        table = Table(
            "search",
            f"Training loss after round {self.rounds}",
            ["method", "γ", "η", "training loss", "remark"],
        )
        for method, stages in self.stages.items():
            choice = self.choice(method)
            name = self._config(method, 1.0, 1.0, self._seeds[0]).algorithm.label
            for number, stage in enumerate(stages):
                for candidate in stage:
                    if number and candidate.server_lr == 1.0:
                        continue
                    eta = f"{candidate.server_lr:g}" if self._has_global_step(method) else "none"
                    table.rows.append(
                        [
                            name,
                            f"{candidate.lr:g}",
                            eta,
                            _loss(candidate),
                            _remark(
                                candidate, choice, has_global_step=self._has_global_step(method)
                            ),
                        ]
                    )
        return table

    def _runs(self, method: str, lr: float, server_lr: float = 1.0) -> list[RunConfig]:
        return [self._config(method, lr, server_lr, seed) for seed in self._seeds]

    def _config(self, method: str, lr: float, server_lr: float, seed: int) -> RunConfig:
        steps = {"lr": lr, "server_lr": server_lr if self._has_global_step(method) else 0.0}
        method_keys = {**method_settings(method), **steps, "seed": seed}
        config = RunConfig(**{**self._values, **method_keys})
        name = f"{run_name(config)}-lr-{lr:g}-server-lr-{server_lr:g}"
        return replace(config, run_dir=str(self._parent / name))

    def _has_global_step(self, method: str) -> bool:
        return METHODS.find(method_settings(method)["method"]).server_step

    def _candidate(self, method: str, lr: float, server_lr: float) -> Candidate:
        losses = [_final_loss(Path(c.run_dir)) for c in self._runs(method, lr, server_lr)]
        return Candidate(method, lr, server_lr, tuple(losses))


def _final_loss(path: Path) -> float:
    """Return the training loss of a run's last round; infinity if it is no number."""
    run = RunDirectory(path)
    loss = run.metrics()[-1]["train_loss"]
    return math.inf if loss is None or run.outcome()["status"] == "diverged" else float(loss)


def _loss(candidate: Candidate) -> Cell:
    if not math.isfinite(candidate.loss):
        return "no number"
    return Spread.of(candidate.losses, scale=1.0, digits=4)


def _remark(candidate: Candidate, choice: Candidate | None, *, has_global_step: bool) -> str:
    if choice is None or (candidate.lr, candidate.server_lr) != (choice.lr, choice.server_lr):
        return ""
    edges = {LOCAL_GRID[0], LOCAL_GRID[-1]}
    at_edge = candidate.lr in edges or (has_global_step and candidate.server_lr == GLOBAL_GRID[-1])
    return "chosen, at the edge of the grid" if at_edge else "chosen"
