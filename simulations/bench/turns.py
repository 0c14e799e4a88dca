"""A run on Flower's engine and the bare loop, round by round in turns."""

from __future__ import annotations

import time
from threading import Event, Thread

import numpy as np
from numpy.typing import NDArray

from fedau_flwr.server.loop import RunFailure
from simulations.bench.bare_loop import BareLoop
from simulations.bench.pause import PERIOD, pause_file, paused_file
from simulations.bench.settings import WARM_UP
from simulations.runs.directory import RunDirectory


class Turns:
    """Runs a round of the bare loop before the same round of a run, while that one waits.

    Parameters
    ----------
    bare : BareLoop
        The bare loop, ready to run.
    run : RunDirectory
        Where the run is going to be; it has to be started within the `with` block.
    """

    def __init__(self, bare: BareLoop, run: RunDirectory) -> None:
        self._bare = bare
        self._run = run
        self._over = Event()
        self._seconds: dict[int, float] = {}
        self._failure: RunFailure | None = None
        self._thread = Thread(target=self._take_turns)

    def __enter__(self) -> Turns:
        self._run.path.mkdir(parents=True, exist_ok=True)
        pause_file(self._run).touch()
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    @property
    def seconds(self) -> NDArray[np.float64]:
        """Seconds of the bare loop's counted rounds."""
        return np.array([self._seconds[number] for number in sorted(self._seconds)][WARM_UP:])

    def _take_turns(self) -> None:
        paused = paused_file(self._run)
        while not self._over.is_set():
            if not paused.exists():
                time.sleep(PERIOD)
                continue
            number = int(paused.read_text())
            try:
                self._seconds[number] = self._bare.round(number)
            except RunFailure as failure:
                self._failure = failure
                paused.unlink()
                return
            pause_file(self._run).touch()
            paused.unlink()
