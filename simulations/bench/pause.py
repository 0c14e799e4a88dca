"""A run that waits between rounds while somebody else needs the machine.

Whoever wants a pause puts the file ``pause`` into the run's directory. Before its next round the
run takes the file away and writes ``paused``, with the number of that round, and waits until
``paused`` is gone. The app of such runs is the suite's own with the ServerApp of this module.
"""

import time
from collections.abc import Callable
from pathlib import Path
from threading import Event

import numpy as np
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp
from numpy.typing import NDArray

from fedau_flwr.files import save_text
from fedau_flwr.server.callbacks import Callback
from fedau_flwr.server.loop import RoundLoop
from simulations.config import RunConfig
from simulations.runs.directory import RunDirectory
from simulations.server_app import run_experiment

PERIOD = 0.002
"""Seconds between looks at the files; a look takes microseconds."""

server = ServerApp()


def pause_file(run: RunDirectory) -> Path:
    """Return the file that asks for a pause."""
    return run.path / "pause"


def paused_file(run: RunDirectory) -> Path:
    """Return the file that is there while the run waits."""
    return run.path / "paused"


class Pausing(Callback):
    """Waits before a round if asked to, until the pause is over or the run is stopped."""

    def __init__(self, run: RunDirectory) -> None:
        self._run = run
        self._asked, self._waiting = pause_file(run), paused_file(run)

    def on_start(self, loop: RoundLoop) -> None:
        """Take away what a run that was killed has left behind."""
        self._waiting.unlink(missing_ok=True)

    def before_round(self, loop: RoundLoop) -> None:
        """Wait if asked to."""
        if not self._asked.exists():
            return
        # First of all, since whoever sees the other file may ask for the next pause at once.
        self._asked.unlink(missing_ok=True)
        save_text(self._waiting, f"{loop.round + 1}")
        while self._waiting.exists() and not self._run.stop_file.exists():
            time.sleep(PERIOD)
        self._waiting.unlink(missing_ok=True)


def take_turns(
    other: Callable[[int], float], run: RunDirectory, over: Event
) -> NDArray[np.float64]:
    """Have `other` do each round while the run waits before it, and return the seconds it took."""
    paused, seconds = paused_file(run), {}
    while not over.is_set():
        if not paused.exists():
            time.sleep(PERIOD)
            continue
        number = int(paused.read_text())
        try:
            seconds[number] = other(number)
            pause_file(run).touch()
        finally:
            paused.unlink()
    return np.array([seconds[number] for number in sorted(seconds)])


@server.main()
def main(grid: Grid, context: Context) -> None:
    """Run the experiment that the run config describes."""
    config = RunConfig.parse(context.run_config)
    run_experiment(grid, config, [Pausing(RunDirectory(Path(config.run_dir)))])
