"""One run of an app on a SuperLink, followed through the log that Flower streams."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from simulations.launch.process import Process

CONNECTION = "fedau"
"""What a SuperLink of ours is called in its Flower home."""


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


class FlowerRun(Process):
    """A run that is handed to the SuperLink; the process here only follows its log."""

    def __init__(
        self, app: Path, options: Sequence[str], *, log: Path, environment: Mapping[str, str]
    ) -> None:
        command = ["flwr", "run", str(app), CONNECTION, "--stream", *options]
        super().__init__(f"run of {app.name}", command, log=log, environment=environment)

    def wait_accepted(self, *, timeout: float = 60.0) -> None:
        """Wait until the SuperLink has taken the run."""
        self.wait_for("Successfully started run", timeout=timeout)

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
        answer = flower_command(*arguments, environment=self.environment)
        return str(answer["runs"][0]["status"])

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
