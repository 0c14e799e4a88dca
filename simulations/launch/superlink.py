"""A SuperLink on this machine, for simulations or for SuperNodes, in a Flower home of its own.

A user's own Flower configuration and a SuperLink that is running already are left alone.
"""

from __future__ import annotations

import os
import socket
import ssl
import time
from collections.abc import Mapping
from pathlib import Path

import httpx
import tomli_w

from fedau_flwr.server.loop import RunFailure
from simulations.config import ConfigError
from simulations.launch.flower_run import CONNECTION, FlowerRun
from simulations.launch.process import Process, flower_environment

Value = str | int | float | bool

_ENGINE = {
    # The one SuperExec of a simulation may look for work more often than once a second.
    "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.1",
    # Without them a run starts a quarter faster: no workers that nobody uses, no metrics.
    "RAY_prestart_worker_first_driver": "0",
    "RAY_enable_metrics_collection": "0",
}


class SuperLink(Process):
    """A SuperLink that listens on the loopback interface alone.

    Parameters
    ----------
    directory : Path
        Where its log, its Flower home and, for SuperNodes, its database are. With a simulation Ray
        writes here too.
    simulation : bool (default: False)
        Whether runs go to Flower's simulation engine instead of SuperNodes.
    secrets : Path | None
        Folder of ``ca.crt``, ``server.crt`` and ``server.key``, for TLS and node authentication.
        Flower has no authentication without TLS: with None anybody on this machine may join.
    port : int (default: 0)
        Its port; 0 is any free one.
    environment : Mapping[str, str] | None
        Variables that it and its runs see beside those of this process.
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
        extra = dict(environment or {})
        if simulation:
            defaults = {key: value for key, value in _ENGINE.items() if key not in os.environ}
            extra = {**defaults, "RAY_TMPDIR": str(directory), **extra}
        command = ["flower-superlink", "--host", "127.0.0.1", "--port", str(self.port)]
        command += ["--disable-runtime-dependency-installation"]
        command += ["--simulation"] if simulation else ["--database", f"{directory}/superlink.db"]
        if secrets is None:
            command += ["--insecure"]
        else:
            command += ["--enable-supernode-auth"]
            files = {"ca-certfile": "ca.crt", "certfile": "server.crt", "keyfile": "server.key"}
            for option, name in files.items():
                command += [f"--ssl-{option}", str(secrets / name)]
        super().__init__(
            "SuperLink",
            command,
            log=directory / "superlink.log",
            environment=flower_environment(self.home, extra),
        )
        self._runs = 0

    @property
    def address(self) -> str:
        """Where it listens, for nodes and for ``flwr``."""
        return f"127.0.0.1:{self.port}"

    def start(self, *, timeout: float = 60.0) -> None:
        """Start it and wait until it answers."""
        self.home.mkdir(parents=True, exist_ok=True)
        trust: dict[str, Value] = (
            {"insecure": True} if self.ca is None else {"root-certificates": str(self.ca)}
        )
        connection = {"address": self.address, **trust}
        content = {"superlink": {"default": CONNECTION, CONNECTION: connection}}
        (self.home / "config.toml").write_text(tomli_w.dumps(content), encoding="utf-8")
        super().start()
        self._wait_healthy(timeout)

    def run_app(
        self,
        app: Path,
        config: Mapping[str, Value],
        *,
        log: Path,
        engine: Mapping[str, Value] | None = None,
    ) -> FlowerRun:
        """Hand an app to the SuperLink and return the run, without waiting for anything.

        Parameters
        ----------
        app : Path
            The app's directory.
        config : Mapping[str, Value]
            Settings that replace those of the app.
        log : Path
            Where what Flower streams is appended to.
        engine : Mapping[str, Value] | None
            Settings of the simulation engine, e.g. ``num-supernodes``.
        """
        self._runs += 1
        overrides = self.home / f"run-{self._runs}.toml"
        overrides.write_text(tomli_w.dumps(config), encoding="utf-8")
        options = ["--run-config", str(overrides)]
        if engine:
            options += ["--federation-config", config_argument(engine)]
        run = FlowerRun(app.resolve(), options, log=log, environment=self.environment)
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


def config_argument(values: Mapping[str, Value]) -> str:
    """Write settings in the form that options such as ``--node-config`` read."""
    for key, value in values.items():
        if isinstance(value, str) and ('"' in value or "\n" in value):
            raise ConfigError(
                f"{key} is {value!r}, but must be without double quotes and line breaks."
            )
    return " ".join(
        tomli_w.dumps({key: value}).strip().replace(" = ", "=", 1) for key, value in values.items()
    )


def free_port(port: int = 0) -> int:
    """Return `port` of the loopback interface if it is free, any free one for 0."""
    if not 0 <= port < 65536:
        raise ConfigError(f"port is {port}, but must be in 0 to 65535.")
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            raise ConfigError(f"port is {port}, but must be free: something uses it.") from None
        return int(probe.getsockname()[1])
