"""Ending a program together with everything that it has started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time

from simulations.launch.process_table import Listed, process_table

GRACE_SECONDS = 15.0


class ProcessTree:
    """A program and all that descends from it, as far as `observe` has seen it.

    Flower and Ray put their processes into sessions of their own, and some outlive their parents,
    so neither a signal to a group nor a look at the end would reach them all.
    """

    def __init__(self, root: subprocess.Popen[bytes]) -> None:
        self.root = root
        self._seen: set[Listed] = set()

    def observe(self) -> None:
        """Note what the program has started by now."""
        children: dict[int, list[Listed]] = {}
        now = list(process_table().values())
        for process in now:
            children.setdefault(process.parent, []).append(process)
        ahead = [self.root.pid, *(process.pid for process in self._alive(now))]
        while ahead:
            new = [p for p in children.get(ahead.pop(), []) if not self._knows(p)]
            self._seen.update(new)
            ahead += [process.pid for process in new]

    def alive(self) -> list[int]:
        """Return the descendants that have not ended."""
        return sorted(process.pid for process in self._alive(list(process_table().values())))

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

    def _knows(self, process: Listed) -> bool:
        return any((p.pid, p.started) == (process.pid, process.started) for p in self._seen)

    def _alive(self, now: list[Listed]) -> list[Listed]:
        return [process for process in now if self._knows(process)]


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
