"""A SuperLink on this machine, for simulations or for SuperNodes, and the runs on it.

It has a Flower home of its own: a user's Flower configuration and a SuperLink that is running
already are left alone.
"""

from __future__ import annotations

import json
import os
import re
import ssl
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import httpx
import tomli_w

from fedau_flwr.server.loop import RunFailure
from simulations.config import ConfigError
from simulations.launch.process import (
    TELLS_PARENT,
    Process,
    flower_environment,
    free_port,
    run_program,
)

Value = str | int | float | bool
CONNECTION = "fedau"
"""What a SuperLink of ours is called in its Flower home."""

_ENGINE = {
    # The one SuperExec of a simulation may look for work more often than once a second.
    "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.1",
    # Without them a run starts a quarter faster: no workers that nobody uses, no metrics.
    "RAY_prestart_worker_first_driver": "0",
    "RAY_enable_metrics_collection": "0",
}

# A command of Flower, which is imported while what it needs comes up.
_WHEN_UP = """
import socket, sys, time
from importlib.metadata import distribution
ports = sys.argv.pop(1).split(",")
(command,) = distribution("flwr").entry_points.select(group="console_scripts", name=sys.argv[1])
run = command.load()
sys.argv[:1] = []
for port in ports:
    while True:
        try:
            socket.create_connection(("127.0.0.1", int(port))).close()
            break
        except OSError:
            time.sleep(0.02)
run()
"""


class FlowerRun(Process):
    """A run that is handed to the SuperLink; the process here only follows its log."""

    @property
    def run_id(self) -> int:
        """Flower's id of this run."""
        found = re.search(r"Successfully started run (\d+)", self.output())
        if found is None:
            raise RuntimeError(f"{self.name} was not accepted; see {self.log}.")
        return int(found[1])

    def status(self) -> str:
        """Ask the SuperLink for the status, e.g. ``running`` or ``finished:completed``."""
        arguments = ("ls", CONNECTION, "--run-id", str(self.run_id))
        return str(flower_command(*arguments, environment=self.environment)["runs"][0]["status"])

    def wait_finished(self, *, timeout: float) -> str:
        """Wait until the run has ended and return its final status."""
        deadline = time.monotonic() + timeout
        self.wait(timeout=timeout)
        # The log's end can come a moment before the status does.
        while not (status := self.status()).startswith("finished"):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.name} is still {status} after {timeout:g} s.")
            time.sleep(0.2)
        return status


class SuperLink(Process):
    """A SuperLink that listens on the loopback interface alone, on any free port if that is 0.

    Its log, its Flower home and its database, or what Ray writes in a simulation, go to
    `directory`. `secrets` is the folder of ``ca.crt``, ``server.crt`` and ``server.key``, for TLS
    and node authentication, which Flower has only together: with None anybody on this machine may
    join. It and its runs see `environment` beside the variables of this process.
    """

    def __init__(
        self,
        directory: Path,
        *,
        simulation: bool = False,
        secrets: Path | None = None,
        port: int = 0,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.home = directory / "flower"
        self.port = free_port(port)
        self.ca = secrets / "ca.crt" if secrets else None
        extra = environment or {}
        if simulation:
            defaults = {key: value for key, value in _ENGINE.items() if key not in os.environ}
            extra = {**defaults, "RAY_TMPDIR": str(directory), **extra}
        command = ["flower-superlink", "--host", "127.0.0.1", "--port", str(self.port)]
        command += ["--disable-runtime-dependency-installation"]
        # It would start a SuperExec only when it is up.
        alone = ["--simulation", "--isolation", "process"]
        command += alone if simulation else ["--database", f"{directory}/superlink.db"]
        command += ["--enable-supernode-auth"] if secrets else ["--insecure"]
        files = {"ca-certfile": "ca.crt", "certfile": "server.crt", "keyfile": "server.key"}
        for option, name in files.items() if secrets else ():
            command += [f"--ssl-{option}", f"{secrets}/{name}"]
        variables = flower_environment(self.home, extra)
        super().__init__(
            "SuperLink", command, log=directory / "superlink.log", environment=variables
        )
        self.needed = [self.port]
        """Ports that have to answer before a run is handed over."""
        self.superexec: Process | None = None
        """What starts the runs of a simulation."""
        self._simulation = simulation
        self._runs = 0

    @property
    def address(self) -> str:
        """Where it listens, for nodes and for ``flwr``."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it and, unless it is for simulations, wait until it answers."""
        self.home.mkdir(parents=True, exist_ok=True)
        trust = {"root-certificates": str(self.ca)} if self.ca else {"insecure": True}
        connection = {"address": self.address, **trust}
        content = {"superlink": {"default": CONNECTION, CONNECTION: connection}}
        (self.home / "config.toml").write_text(tomli_w.dumps(content), encoding="utf-8")
        super().start()
        if not self._simulation:
            self._wait_healthy(timeout=60.0)
            return
        # By its parent's id it is found as if the SuperLink had started it.
        command = _when_up([self.port], "flower-superexec", "--insecure")
        command += ["--runtime-api-address", self.address, TELLS_PARENT, str(self.pid)]
        log = self.log.with_name("superexec.log")
        self.superexec = Process("SuperExec", command, log=log, environment=self.environment)
        self.superexec.start()

    def run_app(
        self,
        app: Path,
        config: Mapping[str, Value],
        *,
        log: Path,
        engine: Mapping[str, Value] | None = None,
    ) -> FlowerRun:
        """Hand an app to the SuperLink once it is up; returns the run without waiting for that.

        `config` replaces settings of the app, and `engine` those of the simulation engine, e.g.
        ``num-supernodes``; what Flower streams is appended to `log`.
        """
        self._runs += 1
        overrides = self.home / f"run-{self._runs}.toml"
        overrides.write_text(tomli_w.dumps(config), encoding="utf-8")
        app = app.resolve()
        command = _when_up(self.needed, "flwr", "run", str(app), CONNECTION, "--stream")
        command += ["--run-config", str(overrides)]
        command += ["--federation-config", config_argument(engine)] if engine else []
        run = FlowerRun(f"run of {app.name}", command, log=log, environment=self.environment)
        run.start()
        return run

    def _wait_healthy(self, timeout: float) -> None:
        url = f"http{'s' if self.ca else ''}://{self.address}/health"
        deadline = time.monotonic() + timeout
        verify = ssl.create_default_context(cafile=str(self.ca)) if self.ca else False
        with httpx.Client(verify=verify, trust_env=False, timeout=2.0) as client:
            while self.alive and time.monotonic() < deadline:
                try:
                    if client.get(url).is_success:
                        return
                except httpx.HTTPError:
                    time.sleep(0.05)
        raise RunFailure(f"The SuperLink did not come up on port {self.port}: {self.reason()}")


def _when_up(ports: Iterable[int], *command: str) -> list[str]:
    """Return a command of Flower that waits for ports of this machine to answer."""
    return [sys.executable, "-c", _WHEN_UP, ",".join(map(str, ports)), *command]


def flower_command(*arguments: str, environment: Mapping[str, str]) -> dict[str, Any]:
    """Run ``flwr`` with JSON output and return its answer."""
    failed = f"`flwr {' '.join(arguments)}` failed"
    answer = run_program(["flwr", *arguments, "--format", "json"], environment)
    try:
        content: dict[str, Any] = json.loads(answer.stdout)
    except json.JSONDecodeError:
        said = answer.stderr.strip() or answer.stdout.strip()
        raise RuntimeError(f"{failed}: {said}") from None
    if not content.get("success", True):
        raise RuntimeError(f"{failed}: {content.get('error-message')}")
    return content


def config_argument(values: Mapping[str, Value]) -> str:
    """Write settings in the form that options such as ``--node-config`` read."""
    for key, value in values.items():
        if isinstance(value, str) and ('"' in value or "\n" in value):
            raise ConfigError(
                f"{key} is {value!r}, but must be without double quotes and line breaks."
            )
    lines = tomli_w.dumps(values).splitlines()
    return " ".join(line.replace(" = ", "=", 1) for line in lines)
