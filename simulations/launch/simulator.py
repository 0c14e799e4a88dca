"""Runs on Flower's simulation engine, one after the other on one SuperLink.

Everything that Flower and Ray write goes to a temporary directory that ends with the SuperLink.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from fedau_flwr.server.loop import RunFailure
from simulations.config import RunConfig
from simulations.launch.process import free_port, stop_together
from simulations.launch.signals import one_interruption
from simulations.launch.superlink import FlowerRun, SuperLink, Value
from simulations.runs.directory import RunDirectory
from simulations.runs.shared_arrays import DIRECTORY

CLONE = Path(__file__).resolve().parents[2]
FOLLOW_SECONDS = 0.2
OBSERVE_SECONDS = 2.0
END_SECONDS = 30.0
"""How long what is left of a run may take to end by itself before the next one starts."""
_LONGEST_TEMP = 40
"""Ray puts sockets below its directory, and the path of a socket has 107 characters at most."""

Follow = Callable[[RunDirectory], None]


class Simulator:
    """A SuperLink for simulations, as a context manager.

    It has so many `workers`, processes of one core each with so many `gpus`, which may be a
    fraction; 0 is as many as there are cores. `port` and `environment` are as of `SuperLink`.
    """

    def __init__(
        self,
        *,
        port: int = 0,
        gpus: float = 0.0,
        workers: int = 0,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._port = free_port(port)
        self._environment = environment
        self._engine: dict[str, Value] = {
            "client-resources-num-cpus": 1,
            "client-resources-num-gpus": gpus,
        }
        if workers:
            self._engine["init-args-num-cpus"] = workers
        self._observed = 0.0
        self._ending: FlowerRun | None = None

    def __enter__(self) -> Self:
        short = "/tmp" if len(tempfile.gettempdir()) > _LONGEST_TEMP else None  # noqa: S108
        self._directory = Path(tempfile.mkdtemp(prefix="fedau-", dir=short))
        # The machines of a cluster share no such files.
        shared = {} if os.environ.get("RAY_ADDRESS") else {DIRECTORY: f"{self._directory}/arrays"}
        environment = {**shared, **(self._environment or {})}
        self.link = SuperLink(
            self._directory, simulation=True, port=self._port, environment=environment
        )
        try:
            self.link.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        # Whoever presses Ctrl-C once more must not leave half of it running.
        with one_interruption() as ignore:
            ignore()
            stop_together([self.link, *([self._ending] if self._ending else [])])
            shutil.rmtree(self._directory, ignore_errors=True)

    def run(self, config: RunConfig, nodes: int, *follow: Follow) -> dict[str, Any]:
        """Run an experiment with this clone's app; see `run_app`."""
        return self.run_app(CLONE, config.to_dict(), nodes, *follow)

    def run_app(
        self, app: Path, config: Mapping[str, Value], nodes: int, *follow: Follow
    ) -> dict[str, Any]:
        """Run an app that writes a run directory, ``run-dir`` of its settings; return its outcome.

        Ctrl-C asks the run to stop after its round; a second one ends it at once. The outcome says
        under ``interrupted`` whether that was asked, since it may have come too late. All of
        `follow` are called all the while.
        """
        if self._ending is not None:
            # What is left of the run before would slow this one down.
            with suppress(TimeoutError):
                self._ending.wait(timeout=END_SECONDS)
            self._ending.stop()
        run = RunDirectory(Path(str(config["run-dir"])))
        run.path.mkdir(parents=True, exist_ok=True)
        run.stop_file.unlink(missing_ok=True)
        before = _changed(run.outcome_file)
        engine = {"num-supernodes": nodes, **self._engine}
        submission = self.link.run_app(app, config, log=run.path / "flower.txt", engine=engine)
        self._ending = submission
        try:
            interrupted = self._follow(submission, run, follow, before)
        except BaseException:
            last = (run.progress() or {}).get("round", 0)
            sentence = f"The run was broken off; go on with `fedau resume {run.path}`."
            run.finish("failed", last, sentence)
            submission.stop()
            raise
        outcome = run.outcome()
        if _changed(run.outcome_file) == before or outcome["status"] == "running":
            raise RunFailure(
                f"The run ended without a result; {submission.log} says why: {submission.reason()}"
            )
        if outcome["status"] == "failed":
            raise RunFailure(outcome["sentence"])
        return {**outcome, "interrupted": interrupted}

    def _follow(
        self, submission: FlowerRun, run: RunDirectory, follow: Sequence[Follow], before: int
    ) -> bool:
        """Wait for the end of a run; returns whether it was asked to stop.

        The run is over when its directory says how it ended. Flower and Ray take seconds to
        shut down after that, for which only the next run has to wait.
        """
        asked = False
        while True:
            try:
                while submission.alive:
                    self._check()
                    for update in follow:
                        update(run)
                    if _changed(run.outcome_file) != before and _ended(run):
                        return asked
                    with suppress(TimeoutError):
                        submission.wait(timeout=FOLLOW_SECONDS)
                return asked
            except KeyboardInterrupt:
                if asked:
                    raise
                asked = True
                run.stop_file.touch()

    def _check(self) -> None:
        """Note which processes there are, to end them all later; the SuperLink must be one."""
        if not self.link.alive:
            raise RunFailure(f"The SuperLink ended: {self.link.reason()}")
        if time.monotonic() - self._observed > OBSERVE_SECONDS:
            self.link.observe()
            self._observed = time.monotonic()


def _ended(run: RunDirectory) -> bool:
    return bool(run.outcome()["status"] != "running")


def _changed(path: Path) -> int:
    return path.stat().st_mtime_ns if path.exists() else 0
