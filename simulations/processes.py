"""Ending a program together with everything that it has started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time

GRACE_SECONDS = 15.0


def descendants(root: int) -> set[int]:
    """Return the processes that `root` has started, and those that they have, as it is now."""
    listing = subprocess.run(
        ["ps", "-A", "-o", "pid=,ppid=,stat="], capture_output=True, text=True, check=True
    )
    children: dict[int, list[int]] = {}
    for line in listing.stdout.splitlines():
        pid, parent, state = line.split(maxsplit=2)
        if not state.startswith("Z"):
            children.setdefault(int(parent), []).append(int(pid))
    found: set[int] = set()
    ahead = [root]
    while ahead:
        new = [pid for pid in children.get(ahead.pop(), []) if pid not in found]
        found.update(new)
        ahead += new
    return found


def end_tree(process: subprocess.Popen[bytes]) -> None:
    """End a process and all that it has started; what does not go within the grace is killed.

    Flower and Ray put their processes into sessions of their own, so a signal to the group of the
    first would not reach them.
    """
    tree = descendants(process.pid) if process.poll() is None else set()
    _signal({process.pid, *tree} if process.poll() is None else tree, signal.SIGTERM)
    deadline = time.monotonic() + GRACE_SECONDS
    while (process.poll() is None or alive(tree)) and time.monotonic() < deadline:
        time.sleep(0.05)
        for pid in alive(tree):
            tree |= descendants(pid)
    _signal(alive(tree), signal.SIGKILL)
    if process.poll() is None:
        process.kill()
    process.wait()


def _signal(pids: set[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def alive(pids: set[int]) -> set[int]:
    """Return those that have not ended yet."""
    if not pids:
        return set()
    listing = subprocess.run(
        ["ps", "-o", "pid=,stat=", "-p", ",".join(map(str, pids))],
        capture_output=True,
        text=True,
        check=False,
    )
    rows = [line.split(maxsplit=1) for line in listing.stdout.splitlines()]
    return {int(pid) for pid, state in rows if not state.startswith("Z")}
