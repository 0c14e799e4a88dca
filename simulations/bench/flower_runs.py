"""Runs on Flower's real engine, from `flwr run` to Ray, and how long their rounds took."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w
from numpy.typing import NDArray

from fedau_flwr.server.loop import RunFailure
from simulations.bench.bare_loop import BareLoop
from simulations.bench.pausing_app import write_app
from simulations.bench.settings import WARM_UP, BenchSettings
from simulations.bench.turns import Turns
from simulations.config import RunConfig
from simulations.launch.simulator import Simulator
from simulations.runs.directory import RunDirectory
from simulations.runs.experiment import open_experiment

ALONE = Path(__file__).parent / "flower_alone"
ROUND = ("configure", "exchange", "aggregate", "record")
"""The phases that make up a round; evaluation and checkpoints come every so many rounds."""


class FlowerRuns:
    """Makes runs with one simulator, each in a directory of its own.

    Parameters
    ----------
    simulator : Simulator
        A simulator that is up.
    settings : BenchSettings
        The sizes.
    directory : Path
        Where the runs go.
    """

    def __init__(self, simulator: Simulator, settings: BenchSettings, directory: Path) -> None:
        self._simulator = simulator
        self._settings = settings
        self._directory = directory
        self._app = write_app(directory / "app")
        self._count = 0

    def beside(
        self, bare: BareLoop, config: RunConfig
    ) -> tuple[dict[str, np.ndarray], NDArray[np.float64]]:
        """Run the suite's app in turns with the bare loop.

        Returns the seconds of the counted rounds, the app's by phase.
        """
        config = self._placed(config)
        per_node = config.clients_per_node
        nodes = math.ceil(config.clients / per_node) if per_node else self._settings.workers
        with Turns(bare, RunDirectory(Path(config.run_dir))) as turns:
            _finished(self._simulator.run_app(self._app, config.to_dict(), nodes))
        return _times(config), turns.seconds

    def flower_alone(self, config: RunConfig) -> dict[str, np.ndarray]:
        """Run FedAvg without the suite's loop and engine, one client per node."""
        config = self._placed(config)
        run = RunDirectory(Path(config.run_dir))
        run.path.mkdir(parents=True)
        values: dict[str, Any] = {k: v for k, v in config.to_dict().items() if k != "run-dir"}
        run.config_file.write_bytes(tomli_w.dumps(values).encode())
        _finished(self._simulator.run_app(ALONE, {"run-dir": config.run_dir}, config.clients))
        return _times(config)

    def _placed(self, config: RunConfig) -> RunConfig:
        self._count += 1
        return replace(config, run_dir=str(self._directory / f"run-{self._count}"))


def round_seconds(times: dict[str, np.ndarray]) -> np.ndarray:
    """Return the seconds of each round, evaluation and checkpoints left out."""
    return sum((times[phase] for phase in ROUND if phase in times), np.zeros(1))


def participants(config: RunConfig) -> np.ndarray:
    """Return how many clients train in each counted round, 1 where nobody does."""
    process = open_experiment(config).process
    there = [int(process.active(t).sum()) for t in range(WARM_UP, config.rounds)]
    return np.maximum(there, 1)


def _finished(outcome: dict[str, Any]) -> None:
    """Refuse a run of which not every round can be compared."""
    if outcome["interrupted"]:
        raise KeyboardInterrupt
    if outcome["status"] != "finished":
        raise RunFailure(f"A run of the benchmark did not finish: {outcome['sentence']}")


def _times(config: RunConfig) -> dict[str, np.ndarray]:
    with np.load(RunDirectory(Path(config.run_dir)).times_file) as file:
        return {name: file[name][WARM_UP:] if file[name].ndim else file[name] for name in file}
