"""Runs on Flower's simulation engine, one after the other on one SuperLink.

Everything that Flower and Ray write goes to a temporary directory that ends with the SuperLink.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import psutil
import tomli_w

from fedau_flwr.server.loop import RunFailure
from simulations.config import RunConfig
from simulations.launch.process import Process, free_port, stop_together
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

_NICENESS = "RAY_worker_niceness"

# Flower's engine would start it by itself, but only when all else is up, and with an autoscaler, a
# log reader and a dashboard, which nobody looks at and which take half of its start.
RAY = """
import signal, sys, ray
from ray._private.node import Node
for part in ("start_monitor", "start_log_monitor", "start_api_server"):
    setattr(Node, part, lambda self, **options: None)
cores = int(sys.argv[1])
ray.init("local", num_cpus=cores or None, include_dashboard=False, log_to_driver=False)
signal.pause()
"""

Follow = Callable[[RunDirectory], None]


def write_app(directory: Path, **components: str) -> Path:
    """Write the directory of an app that is the clone's but for some components.

    Flower would go through every file of the clone, of its environment too, to pack it anew for
    each run; this one has no files, and its modules are found in the clone itself.
    """
    suite = tomllib.loads((CLONE / "pyproject.toml").read_text(encoding="utf-8"))
    project = {key: suite["project"][key] for key in ("name", "version", "description", "license")}
    own = suite["tool"]["flwr"]["app"]
    app = {key: own[key] for key in ("publisher", "config")}
    app["components"] = {**own["components"], **components}
    directory.mkdir(parents=True)
    content = tomli_w.dumps({"project": project, "tool": {"flwr": {"app": app}}})
    (directory / "pyproject.toml").write_text(content, encoding="utf-8")
    return directory


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
        self._environment = dict(environment or {})
        self._workers = workers
        self._engine: dict[str, Value] = {
            "client-resources-num-cpus": 1,
            "client-resources-num-gpus": gpus,
        }
        self._observed = 0.0
        self._ending: FlowerRun | None = None
        self._ray: Process | None = None

    def __enter__(self) -> Self:
        short = "/tmp" if len(tempfile.gettempdir()) > _LONGEST_TEMP else None  # noqa: S108
        self._directory = Path(tempfile.mkdtemp(prefix="fedau-", dir=short))
        paths = [str(CLONE), os.environ.get("PYTHONPATH", "")]
        own = {"PYTHONPATH": os.pathsep.join(filter(None, paths)), **self._environment}
        port = 0 if {**os.environ, **own}.get("RAY_ADDRESS") else free_port()
        if port:
            # Ray would give way to all else on the machine: how nice a run is, its user decides.
            own = {_NICENESS: os.environ.get(_NICENESS, "0"), **own}
            # The machines of a cluster that is there already share no such files.
            own[DIRECTORY] = f"{self._directory}/arrays"
            own |= {"RAY_ADDRESS": f"127.0.0.1:{port}", "RAY_GCS_SERVER_PORT": f"{port}"}
        self.link = SuperLink(self._directory, simulation=True, port=self._port, environment=own)
        try:
            self.link.start()
            if port:
                command = [sys.executable, "-c", RAY, str(self._workers)]
                log, variables = self._directory / "ray.log", self.link.environment
                self._ray = Process("Ray", command, log=log, environment=variables)
                self._ray.start()
                self.link.needed.append(port)
            self._app = write_app(self._directory / "app")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        # Whoever presses Ctrl-C once more must not leave half of it running.
        with one_interruption() as ignore:
            ignore()
            # All that a run has to say is in its directory: nothing needs to be asked to end.
            parts = [self.link, self.link.superexec, self._ending, self._ray]
            stop_together([part for part in parts if part], timeout=0.0)
            shutil.rmtree(self._directory, ignore_errors=True)

    def run(self, config: RunConfig, nodes: int, *follow: Follow) -> dict[str, Any]:
        """Run an experiment with this clone's app; see `run_app`."""
        return self.run_app(self._app, config.to_dict(), nodes, *follow)

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
            submission.stop()
            # The server would say of the run that its nodes are dead, as they soon are.
            for process in self.link.superexec.descendants() if self.link.superexec else ():
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            last = (run.progress() or {}).get("round", 0)
            sentence = f"The run was broken off; go on with `fedau resume {run.path}`."
            run.finish("failed", last, sentence)
            raise
        finally:
            if self.link.superexec is not None:
                self.link.superexec.resume()
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
                    begun = _changed(run.outcome_file) != before
                    if begun and _ended(run):
                        return asked
                    if begun and self.link.superexec is not None:
                        # It has started the run, and would look for another ten times a second.
                        self.link.superexec.suspend()
                    with suppress(TimeoutError):
                        submission.wait(timeout=FOLLOW_SECONDS)
                return asked
            except KeyboardInterrupt:
                if asked:
                    raise
                asked = True
                run.stop_file.touch()

    def _check(self) -> None:
        """Note which processes there are, to end them all later; these must be among them."""
        needed = {"The SuperLink": self.link, "The SuperExec": self.link.superexec}
        for name, part in {**needed, "Ray": self._ray}.items():
            if part is not None and not part.alive:
                raise RunFailure(f"{name} ended: {part.reason()}")
        if time.monotonic() - self._observed > OBSERVE_SECONDS:
            self.link.observe()
            self._observed = time.monotonic()


def _ended(run: RunDirectory) -> bool:
    return bool(run.outcome()["status"] != "running")


def _changed(path: Path) -> int:
    return path.stat().st_mtime_ns if path.exists() else 0
