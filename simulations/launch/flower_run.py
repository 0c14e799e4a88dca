"""One run of an app on a federation, followed through the log that Flower streams."""

import json
import re
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from simulations.launch.process import Process


def flower_command(*arguments: str, environment: Mapping[str, str]) -> dict[str, Any]:
    """Run ``flwr`` with JSON output and return its answer."""
    answer = subprocess.run(
        ["flwr", *arguments, "--format", "json"],
        capture_output=True,
        text=True,
        check=False,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
    )
    try:
        content: dict[str, Any] = json.loads(answer.stdout)
    except json.JSONDecodeError:
        said = answer.stderr.strip() or answer.stdout.strip()
        raise RuntimeError(f"`flwr {' '.join(arguments)}` failed: {said}") from None
    if not content.get("success", True):
        raise RuntimeError(f"`flwr {' '.join(arguments)}` failed: {content.get('error-message')}")
    return content


class Run(Process):
    """A run that was handed to the SuperLink; the process here only follows its log."""

    def __init__(
        self,
        app: Path,
        *,
        connection: str,
        config: str,
        log: Path,
        environment: Mapping[str, str],
    ) -> None:
        command = ["flwr", "run", str(app), connection, "--stream"]
        if config:
            command += ["--run-config", config]
        super().__init__(f"run of {app.name}", command, log=log, environment=environment)
        self.connection = connection

    @property
    def run_id(self) -> int:
        """Flower's id of this run."""
        found = re.search(r"Successfully started run (\d+)", self.output())
        if found is None:
            raise RuntimeError(f"{self.name} was not accepted; see {self.log}.")
        return int(found[1])

    def status(self) -> str:
        """Ask the SuperLink for the status, e.g. ``running`` or ``finished:completed``."""
        answer = flower_command(
            "ls", self.connection, "--run-id", str(self.run_id), environment=self.environment
        )
        status: str = answer["runs"][0]["status"]
        return status

    def wait_finished(self, *, timeout: float) -> str:
        """Wait until the run has ended and return its final status."""
        deadline = time.monotonic() + timeout
        self.wait(timeout=timeout)
        # The log's end can come a moment before the status does.
        while not (status := self.status()).startswith("finished"):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.name} is still {status} after {timeout:g} s.")
            time.sleep(1.0)
        return status
