"""How a run ended, for whoever looks into its directory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fedau_flwr.server.callbacks import Callback
from fedau_flwr.server.loop import RoundLoop
from simulations.runs.directory import RunDirectory


class Outcome(Callback):
    """Keeps outcome.json; the last of a loop's callbacks, since all others may still fail."""

    def __init__(self, run: RunDirectory) -> None:
        self._run = run

    def on_start(self, loop: RoundLoop) -> None:
        """Say that the run is going on."""
        self._run.finish(loop.status, loop.round, loop.sentence)

    def on_end(self, loop: RoundLoop) -> None:
        """Say how it ended."""
        self._run.finish(loop.status, loop.round, loop.sentence)


@contextmanager
def noting_refusal(run: RunDirectory) -> Iterator[None]:
    """Note in outcome.json why a run could not even begin."""
    try:
        yield
    except (ValueError, OSError) as error:
        run.finish("failed", 0, str(error))
        raise
