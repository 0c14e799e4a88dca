"""A SuperLink and its SuperNodes on this machine, with real keys and certificates."""

import re
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from simulations.launch.process import (
    Process,
    flower_environment,
    free_port,
    run_program,
    stop_together,
)
from simulations.launch.superlink import CONNECTION, FlowerRun, SuperLink, Value, config_argument

CERTIFICATES = Path(__file__).parents[2] / "docker" / "certificates.py"

# After two missed heartbeats of 30 s; until then the SuperLink takes a killed node for online and
# refuses to activate its key a second time.
SECONDS_UNTIL_OFFLINE = 60
REFUSED = "Failed to activate SuperNode"

# One process for all keys: starting `flwr` takes longer than registering does.
REGISTER = """
import sys
from flwr.cli.app import app
for key in sys.argv[2:]:
    app(["supernode", "register", key, sys.argv[1]], standalone_mode=False)
"""


class Node(Process):
    """A SuperNode that can be killed and started again under the same identity.

    Without `ca`, a CA certificate, it connects without TLS; without `key`, its private key, it
    makes up an identity at each start. Its `superlink` may be changed while it does not run.
    """

    def __init__(
        self,
        name: str,
        directory: Path,
        *,
        superlink: str,
        config: Mapping[str, Value],
        ca: Path | None,
        key: Path | None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        variables = flower_environment(directory / "flower", environment)
        super().__init__(name, [], log=directory / "node.log", environment=variables)
        self.directory = directory
        self.superlink = superlink
        config_argument(config)  # refuses what cannot be said, before anything was started
        self.config = dict(config)
        self._trust = ["--root-certificates", str(ca)] if ca else ["--insecure"]
        self._trust += ["--auth-supernode-private-key", str(key)] if key else []

    @property
    def node_id(self) -> int | None:
        """Id that the SuperLink knows it by, None before it has connected."""
        found = re.findall(r"SuperNode ID: (\d+)", self.output())
        return int(found[-1]) if found else None

    def start(self) -> None:
        """Start it without waiting for a connection."""
        self.command = ["flower-supernode", "--superlink", self.superlink, *self._trust]
        self.command += ["--host", "127.0.0.1", "--port", str(free_port())]
        self.command += ["--node-config", config_argument(self.config)]
        super().start()

    def wait_connected(self, *, timeout: float = 2.0 * SECONDS_UNTIL_OFFLINE) -> None:
        """Wait until the SuperLink has accepted it.

        It is started again as often as it takes until its key no longer counts as online.
        """
        deadline = time.monotonic() + timeout
        while True:
            try:
                left = max(1.0, deadline - time.monotonic())
                return self.wait_for("SuperNode ID: ", timeout=left)
            except RuntimeError:
                self.stop()
                if REFUSED not in self.output() or time.monotonic() > deadline:
                    raise
            time.sleep(1.0)
            self.start()


class Federation:
    """One SuperLink with a database and ``nodes`` SuperNodes, all below one directory.

    A directory that was used before is taken up again: same keys, same database, same states.

    Node ``k`` gets ``partition-id = k``, beside a state directory and `node_config`. Without `tls`,
    which is TLS and node authentication, anybody may join, and a node has a new id after each
    start. `environment` is added to that of every process.
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

    def start_superlink(self) -> None:
        """Start the SuperLink (again), and register the nodes' keys the first time."""
        if self.tls:
            names = [argument for node in self.nodes for argument in ("--node", node.name)]
            command = [str(CERTIFICATES), "--directory", str(self.secrets), *names]
            self._python(command, "The keys could not be made")
        self.superlink.start()
        if self.tls:
            self._register_keys()

    def start_nodes(self, *, timeout: float = 120.0) -> None:
        """Start every node that does not run, and wait until all are connected."""
        for node in self.nodes:
            if not node.alive:
                node.start()
        deadline = time.monotonic() + timeout
        for node in self.nodes:
            node.wait_connected(timeout=deadline - time.monotonic())

    def run(self, app: Path, *, config: Mapping[str, Value] | None = None) -> FlowerRun:
        """Hand an app to the SuperLink and follow it; returns once it was accepted."""
        log = self.directory / f"run-{len(self._runs) + 1}.log"
        run = self.superlink.run_app(app, config or {}, log=log)
        self._runs.append(run)
        run.wait_for("Successfully started run", timeout=60.0)
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
        answer = run_program([sys.executable, *arguments], self.superlink.environment)
        if answer.returncode:
            said = answer.stderr.strip().splitlines() or [f"status {answer.returncode}"]
            raise RuntimeError(f"{failure}: {said[-1]}")
