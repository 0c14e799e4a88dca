"""Runs on Flower's real engine, from `flwr run` to Ray, and how long their rounds took."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import tomli_w

from fedau_flwr.server.loop import RunFailure
from simulations.bench import pause
from simulations.bench.bare_loop import Bare
from simulations.bench.pause import pause_file, take_turns
from simulations.bench.settings import WARM_UP
from simulations.config import RunConfig
from simulations.launch.runner import Resources
from simulations.launch.simulator import Simulator, write_app
from simulations.runs.directory import RunDirectory
from simulations.runs.experiment import open_experiment

ALONE = Path(__file__).parent / "flower_alone"
ROUND = ("configure", "exchange", "aggregate", "record")
"""The phases that make up a round; evaluation and checkpoints come every so many rounds."""

Times = dict[str, np.ndarray]
"""Seconds of the counted rounds by phase."""


class FlowerRuns:
    """Makes runs with a simulator that is up, each in a directory of its own."""

    def __init__(self, simulator: Simulator, workers: int, directory: Path) -> None:
        self._simulator = simulator
        self._resources = Resources(workers=workers)
        self._directory = directory
        self._app = write_app(directory / "app", serverapp=f"{pause.__name__}:server")
        self._count = 0

    def beside(self, bare: Bare, config: RunConfig) -> tuple[Times, np.ndarray]:
        """Run the suite's app in turns with the bare loop; return the seconds of both."""
        run = self._new_run()
        config = replace(config, run_dir=str(run.path))
        pause_file(run).touch()
        over = Event()
        with ThreadPoolExecutor(1) as pool:
            turns = pool.submit(take_turns, bare, run, over)
            try:
                nodes = self._resources.nodes(config)
                times = self._times(run, self._app, config.to_dict(), nodes)
            finally:
                over.set()
        return times, turns.result()[WARM_UP:]

    def flower_alone(self, config: RunConfig, *, plain: bool = False) -> Times:
        """Run FedAvg without the suite's loop and engine, one client per node.

        A `plain` one has no training step of ours either.
        """
        run = self._new_run()
        values: dict[str, Any] = {k: v for k, v in config.to_dict().items() if k != "run-dir"}
        run.config_file.write_text(tomli_w.dumps(values), encoding="utf-8")
        settings: dict[str, Any] = {"run-dir": str(run.path), "plain": plain}
        return self._times(run, ALONE, settings, config.clients)

    def _new_run(self) -> RunDirectory:
        self._count += 1
        run = RunDirectory(self._directory / f"run-{self._count}")
        run.path.mkdir(parents=True)
        return run

    def _times(self, run: RunDirectory, app: Path, config: Mapping[str, Any], nodes: int) -> Times:
        """Run an app; refuses a run of which not every round can be compared."""
        outcome = self._simulator.run_app(app, config, nodes)
        if outcome["interrupted"]:
            raise KeyboardInterrupt
        if outcome["status"] != "finished":
            raise RunFailure(f"A run of the benchmark did not finish: {outcome['sentence']}")
        with np.load(run.times_file) as file:
            return {name: file[name][WARM_UP:] if file[name].ndim else file[name] for name in file}


def round_seconds(times: Times) -> np.ndarray:
    """Return the seconds of each round, evaluation and checkpoints left out."""
    return sum((times[phase] for phase in ROUND if phase in times), np.zeros(1))


def participants(config: RunConfig) -> np.ndarray:
    """Return how many clients train in each counted round, 1 where nobody does."""
    process = open_experiment(config).process
    there = [int(process.active(t).sum()) for t in range(WARM_UP, config.rounds)]
    return np.maximum(there, 1)
