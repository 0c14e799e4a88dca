"""Ending a program together with everything that it has started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from dataclasses import dataclass

GRACE_SECONDS = 15.0


@dataclass(frozen=True)
class _Process:
    """A process; its start tells it from a later one of the same number."""

    pid: int
    parent: int
    started: str


class ProcessTree:
    """A program and all that descends from it, as far as `observe` has seen it.

    Flower and Ray put their processes into sessions of their own, and some outlive their parents,
    so neither a signal to a group nor a look at the end would reach them all.
    """

    def __init__(self, root: subprocess.Popen[bytes]) -> None:
        self.root = root
        self._seen: set[_Process] = set()

    def observe(self) -> None:
        """Note what the program has started by now."""
        children: dict[int, list[_Process]] = {}
        now = _processes()
        for process in now:
            children.setdefault(process.parent, []).append(process)
        ahead = [self.root.pid, *(process.pid for process in self._alive(now))]
        while ahead:
            new = [p for p in children.get(ahead.pop(), []) if not self._knows(p)]
            self._seen.update(new)
            ahead += [process.pid for process in new]

    def alive(self) -> list[int]:
        """Return the descendants that have not ended."""
        return sorted(process.pid for process in self._alive(_processes()))

    def end(self) -> None:
        """End the program and its descendants; what does not go within the grace is killed."""
        self.observe()
        if self.root.poll() is None:
            self.root.terminate()
        _signal(self.alive(), signal.SIGTERM)
        deadline = time.monotonic() + GRACE_SECONDS
        while (self.root.poll() is None or self.alive()) and time.monotonic() < deadline:
            time.sleep(0.1)
            self.observe()
        _signal(self.alive(), signal.SIGKILL)
        if self.root.poll() is None:
            self.root.kill()
        self.root.wait()
        while self.alive() and time.monotonic() < deadline + GRACE_SECONDS:
            time.sleep(0.1)

    def _knows(self, process: _Process) -> bool:
        return any((p.pid, p.started) == (process.pid, process.started) for p in self._seen)

    def _alive(self, now: list[_Process]) -> list[_Process]:
        return [process for process in now if self._knows(process)]


def _processes() -> list[_Process]:
    """Return all processes of this machine that have not ended."""
    listing = subprocess.run(
        ["ps", "-A", "-o", "pid=,ppid=,stat=,lstart="], capture_output=True, text=True, check=True
    )
    rows = [line.split(maxsplit=3) for line in listing.stdout.splitlines()]
    return [
        _Process(int(pid), int(parent), started)
        for pid, parent, state, started in rows
        if not state.startswith("Z")
    ]


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
