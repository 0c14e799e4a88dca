"""A SuperLink and its SuperNodes on this machine, with real keys and certificates."""

import json
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from simulations.launch.flower_run import Run
from simulations.launch.node import REFUSED, Node, config_argument, free_port
from simulations.launch.process import Process, flower_environment, stop_together

CONNECTION = "federation"
CERTIFICATES = Path(__file__).parents[2] / "docker" / "certificates.py"

# One process for all keys: starting `flwr` takes longer than registering does.
REGISTER = """
import sys
from flwr.cli.app import app
for key in sys.argv[2:]:
    app(["supernode", "register", key, sys.argv[1]], standalone_mode=False)
"""


class Federation:
    """One SuperLink with a database and ``nodes`` SuperNodes, all below one directory.

    A directory that was used before is taken up again: same keys, same database, same states.

    Parameters
    ----------
    directory : Path
        Where everything is kept: secrets, database, logs, the nodes' states.
    nodes : int
        Number of SuperNodes; node ``k`` gets ``partition-id = k``.
    tls : bool
        TLS and node authentication. Flower has no authentication without TLS, so without it
        anybody may join, and a node has a new id after each start.
    node_config : Mapping[str, str | int | float | bool] | None
        Entries for every node's configuration besides partition and state directory.
    groups : Mapping[int, str] | None
        Group of each node that has one (``fedau-group``).
    environment : Mapping[str, str] | None
        Additions to the environment of every process.
    """

    def __init__(
        self,
        directory: Path,
        *,
        nodes: int,
        tls: bool = True,
        node_config: Mapping[str, str | int | float | bool] | None = None,
        groups: Mapping[int, str] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        if nodes < 1:
            raise ValueError(f"nodes = {nodes}: a federation needs at least 1.")
        self.directory = directory.resolve()
        self.tls = tls
        self.secrets = self.directory / "secrets"
        self.port = free_port()
        self.environment = flower_environment(self.directory / "flower", environment)
        self.superlink = Process(
            "SuperLink",
            self._superlink_command(),
            log=self.directory / "superlink.log",
            environment=self.environment,
        )
        self.nodes = [
            Node(
                f"node-{index}",
                self.directory / f"node-{index}",
                superlink=self.address,
                config=self._node_config(index, nodes, node_config or {}, groups or {}),
                ca=self.ca,
                key=self.secrets / f"node-{index}.key" if tls else None,
                environment=environment,
            )
            for index in range(nodes)
        ]
        self._runs: list[Run] = []

    @property
    def address(self) -> str:
        """Where the SuperLink listens, for nodes and for ``flwr``."""
        return f"127.0.0.1:{self.port}"

    @property
    def ca(self) -> Path | None:
        """CA certificate that the SuperLink's own is signed with."""
        return self.secrets / "ca.crt" if self.tls else None

    def start(self) -> None:
        """Start the SuperLink and every node, and wait until all are connected."""
        self.start_superlink()
        self.start_nodes()

    def start_superlink(self, *, timeout: float = 60.0) -> None:
        """Start the SuperLink (again), and register the nodes' keys the first time."""
        self.prepare()
        self.superlink.start()
        self.wait_healthy(timeout=timeout)
        if self.tls:
            self.register_keys()

    def prepare(self) -> None:
        """Make the secrets and tell ``flwr`` where the SuperLink is, without starting anything."""
        self.directory.mkdir(parents=True, exist_ok=True)
        if self.tls:
            self._make_secrets()
        self._write_connection()

    def start_nodes(self, *, timeout: float = 120.0) -> None:
        """Start every node that does not run, and wait until all are connected.

        After a crash the SuperLink may take a node for online still, and needs to be asked again.
        """
        for node in self.nodes:
            if not node.alive:
                node.start()
        deadline = time.monotonic() + timeout
        for node in self.nodes:
            try:
                node.wait_connected(timeout=max(1.0, deadline - time.monotonic()))
            except RuntimeError:
                if REFUSED not in node.output():
                    raise
                node.stop()
                node.rejoin(timeout=max(1.0, deadline - time.monotonic()))

    def run(
        self, app: Path, *, config: Mapping[str, str | int | float | bool] | None = None
    ) -> Run:
        """Hand an app to the SuperLink and follow it; returns once it was accepted."""
        run = Run(
            app.resolve(),
            connection=CONNECTION,
            config=config_argument(config or {}),
            log=self.directory / f"run-{len(self._runs) + 1}.log",
            environment=self.environment,
        )
        self._runs.append(run)
        run.start()
        run.wait_for("Successfully started run", timeout=60.0)
        return run

    def stop(self) -> None:
        """Stop everything that was started, the SuperLink last so that nodes can say goodbye."""
        stop_together(self._runs)
        stop_together(self.nodes)
        self.superlink.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _superlink_command(self) -> list[str]:
        command = ["flower-superlink", "--host", "127.0.0.1", "--port", str(self.port)]
        command += ["--database", str(self.directory / "superlink.db")]
        if not self.tls:
            return [*command, "--insecure"]
        return [
            *command,
            "--enable-supernode-auth",
            *("--ssl-ca-certfile", str(self.secrets / "ca.crt")),
            *("--ssl-certfile", str(self.secrets / "server.crt")),
            *("--ssl-keyfile", str(self.secrets / "server.key")),
        ]

    def _node_config(
        self,
        index: int,
        nodes: int,
        common: Mapping[str, str | int | float | bool],
        groups: Mapping[int, str],
    ) -> dict[str, str | int | float | bool]:
        config = {
            **common,
            "partition-id": index,
            "num-partitions": nodes,
            "fedau-state-dir": str(self.directory / f"node-{index}" / "state"),
        }
        return config | ({"fedau-group": groups[index]} if index in groups else {})

    def _make_secrets(self) -> None:
        names = [argument for node in self.nodes for argument in ("--node", node.name)]
        answer = subprocess.run(
            [sys.executable, str(CERTIFICATES), "--directory", str(self.secrets), *names],
            capture_output=True,
            text=True,
            check=False,
        )
        if answer.returncode:
            said = answer.stderr.strip().splitlines() or [f"status {answer.returncode}"]
            raise RuntimeError(f"The keys could not be made: {said[-1]}")

    def _write_connection(self) -> None:
        home = self.directory / "flower"
        home.mkdir(exist_ok=True)
        trust = f"root-certificates = {json.dumps(str(self.ca))}" if self.tls else "insecure = true"
        (home / "config.toml").write_text(
            f'[superlink]\ndefault = "{CONNECTION}"\n\n'
            f'[superlink.{CONNECTION}]\naddress = "{self.address}"\n{trust}\n'
        )

    def wait_healthy(self, *, timeout: float = 60.0) -> None:
        """Wait until the SuperLink answers."""
        scheme = "https" if self.tls else "http"
        context = ssl.create_default_context(cafile=str(self.ca)) if self.tls else None
        direct = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )
        deadline = time.monotonic() + timeout
        while True:
            try:
                with direct.open(f"{scheme}://{self.address}/health", timeout=2.0):
                    return
            except (urllib.error.URLError, OSError):
                if time.monotonic() > deadline:
                    raise RuntimeError(
                        f"The SuperLink did not come up; its log is {self.superlink.log}."
                    ) from None
            time.sleep(0.1)

    def register_keys(self) -> None:
        """Make the nodes' public keys known to the SuperLink, once."""
        record = self.directory / "registered"
        known = set(record.read_text().split()) if record.exists() else set()
        new = [node.name for node in self.nodes if node.name not in known]
        if not new:
            return
        keys = [str(self.secrets / f"{name}.pub") for name in new]
        answer = subprocess.run(
            [sys.executable, "-c", REGISTER, CONNECTION, *keys],
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if answer.returncode:
            raise RuntimeError(f"The SuperLink did not register the keys: {answer.stderr.strip()}")
        record.write_text("".join(f"{name}\n" for name in sorted(known | set(new))))
