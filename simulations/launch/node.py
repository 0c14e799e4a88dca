"""A SuperNode process: one client with its key, its node configuration and its FedAU state."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from pathlib import Path

from simulations.launch.process import Process, flower_environment
from simulations.launch.superlink import Value, config_argument, free_port

# After two missed heartbeats of 30 s; until then the SuperLink takes a killed node for online and
# refuses to activate its key a second time.
SECONDS_UNTIL_OFFLINE = 60
REFUSED = "Failed to activate SuperNode"


class Node(Process):
    """A SuperNode that can be killed and started again under the same identity.

    Parameters
    ----------
    name : str
        Its name, also of its log file.
    directory : Path
        Where its Flower home and its FedAU state are kept.
    superlink : str
        Address ``host:port`` it connects to; may be changed while it does not run.
    config : Mapping[str, Value]
        Node configuration.
    ca : Path | None
        CA certificate to check the SuperLink against; None is a connection without TLS.
    key : Path | None
        Its private key; None lets it make up an identity at each start.
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
        super().__init__(
            name,
            [],
            log=directory / "node.log",
            environment=flower_environment(directory / "flower", environment),
        )
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

    def wait_connected(self, *, timeout: float = 60.0) -> int:
        """Wait until the SuperLink has accepted it, and return its node id."""
        self.wait_for("SuperNode ID: ", timeout=timeout)
        node_id = self.node_id
        if node_id is None:
            raise RuntimeError(f"{self.name} reports no node id in {self.log}.")
        return node_id

    def rejoin(self, *, timeout: float = 2.0 * SECONDS_UNTIL_OFFLINE) -> int:
        """Start it again, as often as it takes until its key no longer counts as online."""
        deadline = time.monotonic() + timeout
        while True:
            self.start()
            try:
                return self.wait_connected(timeout=max(1.0, deadline - time.monotonic()))
            except RuntimeError:
                if REFUSED not in self.output() or time.monotonic() > deadline:
                    raise
            finally:
                if self.node_id is None:
                    self.stop()
            time.sleep(1.0)
