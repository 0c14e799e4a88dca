"""A SuperLink of one's own: started on a free port, used for runs one after the other, stopped.

Everything that Flower and Ray write goes to a temporary directory that ends with the SuperLink; a
user's own Flower configuration and a SuperLink that is running already are left alone.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any

import httpx
import tomli_w

from simulations.config import ConfigError, RunConfig
from simulations.launch.process_tree import ProcessTree
from simulations.launch.programs import program
from simulations.runs.directory import RunDirectory
from simulations.runs.failures import RunFailure

CLONE = Path(__file__).resolve().parents[2]
CONNECTION = "fedau"
START_SECONDS = 60.0
OBSERVE_SECONDS = 2.0
_LONGEST_TEMP = 40
"""Ray puts sockets below its directory, and the path of a socket has 107 characters at most."""

Follow = Callable[[RunDirectory], None]


class SuperLink:
    """A SuperLink for simulations, as a context manager.

    Parameters
    ----------
    port : int (default: 0)
        Port on the loopback interface; 0 is any free one.
    gpus : float (default: 0.0)
        GPUs per worker, which may be a fraction.
    workers : int (default: 0)
        Worker processes of one core each; 0 is as many as there are cores.
    environment : Mapping[str, str] (default: {})
        Variables that the SuperLink and its runs see beside those of this process.
    """

    def __init__(
        self,
        *,
        port: int = 0,
        gpus: float = 0.0,
        workers: int = 0,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._variables = environment
        self._port = free_port(port)
        self._resources = {"client-resources-num-cpus": 1, "client-resources-num-gpus": gpus}
        if workers:
            self._resources["init-args-num-cpus"] = workers
        self._tree: ProcessTree | None = None
        self._observed = 0.0

    def __enter__(self) -> SuperLink:
        temp = tempfile.gettempdir()
        self._home = Path(
            tempfile.mkdtemp(prefix="fedau-", dir="/tmp" if len(temp) > _LONGEST_TEMP else temp)  # noqa: S108
        )
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()

    def run(
        self,
        config: RunConfig,
        nodes: int,
        follow: Follow | None = None,
        *,
        app: Path = CLONE,
        keys: Iterable[str] | None = None,
    ) -> dict[str, Any]:
        """Run an app, that of this clone unless told otherwise, and return its outcome.

        Ctrl-C asks the run to stop after its round; a second one ends it at once. The outcome says
        under ``interrupted`` whether that was asked, since it may have come too late.

        Parameters
        ----------
        config : RunConfig
            The settings.
        nodes : int
            Number of SuperNodes.
        follow : Follow | None
            Called all the while.
        app : Path
            The app's directory.
        keys : Iterable[str] | None
            The keys of `config` that the app has, if not all.
        """
        run = RunDirectory(Path(config.run_dir))
        run.path.mkdir(parents=True, exist_ok=True)
        overrides = self._home / "overrides.toml"
        values = config.to_dict()
        values = {key: values[key] for key in (values if keys is None else keys)}
        overrides.write_bytes(tomli_w.dumps(values).encode())
        settings = {"num-supernodes": nodes, **self._resources}
        run.stop_file.unlink(missing_ok=True)
        before = run.outcome_file.stat().st_mtime_ns if run.outcome_file.exists() else 0
        with (run.path / "flower.txt").open("ab") as output:
            submission = subprocess.Popen(
                [
                    program("flwr"),
                    *("run", str(app), CONNECTION, "--stream", "-c", str(overrides)),
                    "--federation-config",
                    " ".join(f"{key}={value}" for key, value in settings.items()),
                ],
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                interrupted = self._follow(submission, run, follow)
            except BaseException:
                last = (run.progress() or {}).get("round", 0)
                sentence = f"The run was broken off; go on with `fedau resume {run.path}`."
                run.finish("failed", last, sentence)
                raise
            finally:
                ProcessTree(submission).end()
        changed = run.outcome_file.exists() and run.outcome_file.stat().st_mtime_ns != before
        outcome = run.outcome()
        if not changed or outcome["status"] == "running":
            raise RunFailure(
                f"The run ended without a result; {run.path / 'flower.txt'} says why: "
                f"{_last_error(run.path / 'flower.txt')}"
            )
        if outcome["status"] == "failed":
            raise RunFailure(outcome["sentence"])
        return {**outcome, "interrupted": interrupted}

    def _follow(
        self, submission: subprocess.Popen[bytes], run: RunDirectory, follow: Follow | None
    ) -> bool:
        """Wait for the end of a run; returns whether it was asked to stop."""
        asked = False
        while True:
            try:
                while submission.poll() is None:
                    self._check()
                    if follow is not None:
                        follow(run)
                    time.sleep(0.5)
                return asked
            except KeyboardInterrupt:
                if asked:
                    raise
                asked = True
                run.stop_file.touch()

    def _check(self) -> None:
        """Note which processes there are, to end them all later; the SuperLink must be one."""
        assert self._tree is not None
        if self._tree.root.poll() is not None:
            raise RunFailure(f"The SuperLink ended: {self._log_tail()}")
        if time.monotonic() - self._observed > OBSERVE_SECONDS:
            self._tree.observe()
            self._observed = time.monotonic()

    def _start(self) -> None:
        address = f"127.0.0.1:{self._port}"
        (self._home / "config.toml").write_text(
            f'[superlink]\ndefault = "{CONNECTION}"\n\n[superlink.{CONNECTION}]\n'
            f'address = "{address}"\ninsecure = true\n',
            encoding="utf-8",
        )
        with (self._home / "superlink.txt").open("wb") as output:
            process = subprocess.Popen(
                [
                    program("flower-superlink"),
                    *("--insecure", "--simulation", "--host", "127.0.0.1"),
                    *("--port", str(self._port), "--disable-runtime-dependency-installation"),
                ],
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._tree = ProcessTree(process)
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if process.poll() is not None:
                break
            try:
                if httpx.get(f"http://{address}/health", timeout=2.0).is_success:
                    return
            except httpx.HTTPError:
                pass
            time.sleep(0.1)
        raise RunFailure(f"The SuperLink did not come up on port {self._port}: {self._log_tail()}")

    def environment(self) -> dict[str, str]:
        """Return the environment in which Flower's programs find this SuperLink."""
        return {
            # Without them a run starts a quarter faster: no workers that nobody uses, no metrics.
            "RAY_prestart_worker_first_driver": "0",
            "RAY_enable_metrics_collection": "0",
            **os.environ,
            # Flower starts its parts by name.
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
            "FLWR_HOME": str(self._home),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_TMPDIR": str(self._home),
            **self._variables,
        }

    def _log_tail(self) -> str:
        return _last_error(self._home / "superlink.txt")

    def _stop(self) -> None:
        if self._tree is not None:
            self._tree.end()
        shutil.rmtree(self._home, ignore_errors=True)


def free_port(port: int) -> int:
    """Return `port` if it is free, any free one for 0."""
    if not 0 <= port < 65536:
        raise ConfigError(f"port is {port}, but must be in 0 to 65535.")
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            raise ConfigError(f"port is {port}, but must be free: something uses it.") from None
        return int(probe.getsockname()[1])


def _last_error(path: Path) -> str:
    """Return the last line of a log that looks like the reason for an end."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []
    lines = [" ".join(line.split()) for line in lines if line.strip()]
    reasons = [line for line in lines if "Error" in line or "ERROR" in line]
    return (reasons or lines or ["it wrote nothing"])[-1]
