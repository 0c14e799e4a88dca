"""A SuperLink and its SuperNodes on this machine, with real keys and certificates."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from simulations.launch.flower_run import CONNECTION, FlowerRun
from simulations.launch.node import REFUSED, Node
from simulations.launch.process import stop_together
from simulations.launch.superlink import SuperLink, Value

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
        TLS and node authentication. Without it anybody may join, and a node has a new id after each
        start.
    node_config : Mapping[str, Value] | None
        Entries for every node's configuration besides partition and state directory.
    environment : Mapping[str, str] | None
        Additions to the environment of every process.
    """

    def __init__(
        self,
        directory: Path,
        *,
        nodes: int,
        tls: bool = True,
        node_config: Mapping[str, Value] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        if nodes < 1:
            raise ValueError(f"nodes is {nodes}, but must be at least 1.")
        self.directory = directory.resolve()
        self.tls = tls
        self.secrets = self.directory / "secrets"
        self.superlink = SuperLink(
            self.directory, secrets=self.secrets if tls else None, environment=environment
        )
        self.nodes = [
            Node(
                f"node-{index}",
                self.directory / f"node-{index}",
                superlink=self.superlink.address,
                config={
                    **(node_config or {}),
                    "partition-id": index,
                    "num-partitions": nodes,
                    "fedau-state-dir": str(self.directory / f"node-{index}" / "state"),
                },
                ca=self.superlink.ca,
                key=self.secrets / f"node-{index}.key" if tls else None,
                environment=environment,
            )
            for index in range(nodes)
        ]
        self._runs: list[FlowerRun] = []

    def start(self) -> None:
        """Start the SuperLink and every node, and wait until all are connected."""
        self.start_superlink()
        self.start_nodes()

    def start_superlink(self, *, timeout: float = 60.0) -> None:
        """Start the SuperLink (again), and register the nodes' keys the first time."""
        if self.tls:
            names = [argument for node in self.nodes for argument in ("--node", node.name)]
            command = [str(CERTIFICATES), "--directory", str(self.secrets), *names]
            self._python(command, "The keys could not be made")
        self.superlink.start(timeout=timeout)
        if self.tls:
            self._register_keys()

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

    def run(self, app: Path, *, config: Mapping[str, Value] | None = None) -> FlowerRun:
        """Hand an app to the SuperLink and follow it; returns once it was accepted."""
        log = self.directory / f"run-{len(self._runs) + 1}.log"
        run = self.superlink.run_app(app, config or {}, log=log)
        self._runs.append(run)
        run.wait_accepted()
        return run

    def stop(self) -> None:
        """Stop everything that was started, the SuperLink last so that nodes can say goodbye."""
        stop_together([*self._runs, *self.nodes])
        self.superlink.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def _register_keys(self) -> None:
        """Make the nodes' public keys known to the SuperLink, once."""
        record = self.directory / "registered"
        known = set(record.read_text().split()) if record.exists() else set()
        new = [node.name for node in self.nodes if node.name not in known]
        if new:
            keys = [str(self.secrets / f"{name}.pub") for name in new]
            self._python(["-c", REGISTER, CONNECTION, *keys], "The keys could not be registered")
            record.write_text("".join(f"{name}\n" for name in sorted(known | set(new))))

    def _python(self, arguments: list[str], failure: str) -> None:
        answer = subprocess.run(
            [sys.executable, *arguments],
            env=self.superlink.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if answer.returncode:
            said = answer.stderr.strip().splitlines() or [f"status {answer.returncode}"]
            raise RuntimeError(f"{failure}: {said[-1]}")
