"""The processes of this machine, as the system lists them."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")


@dataclass(frozen=True)
class Listed:
    """A process that has not ended.

    Parameters
    ----------
    pid, parent : int
        Its id and its parent's.
    started : str
        When, in the system's own words; it tells a process from a later one of the same id.
    command : str
        Its command line.
    """

    pid: int
    parent: int
    started: str
    command: str


def process_table() -> dict[int, Listed]:
    """Return the processes that we may see, by id."""
    listed = _from_proc() if (_PROC / "self" / "stat").exists() else _from_ps()
    return {process.pid: process for process in listed}


def _from_proc() -> list[Listed]:
    """Read Linux's own files, also where no ``ps`` is installed."""
    found = []
    for directory in _PROC.iterdir():
        if not directory.name.isdecimal():
            continue
        try:
            stat = (directory / "stat").read_text(encoding="utf-8", errors="replace")
            command = (directory / "cmdline").read_bytes().rstrip(b"\0")
        except OSError:  # it has ended in the meantime, or is none of ours
            continue
        # The name in parentheses may hold anything, parentheses too.
        state, parent, *rest = stat.rpartition(")")[2].split()
        if state not in "ZX":
            text = command.replace(b"\0", b" ").decode(errors="replace")
            found.append(Listed(int(directory.name), int(parent), rest[17], text))
    return found


def _from_ps() -> list[Listed]:
    listing = subprocess.run(
        ["ps", "-A", "-ww", "-o", "pid=,ppid=,stat=,lstart=,args="],
        capture_output=True,
        check=True,
    )
    found = []
    for line in listing.stdout.decode(errors="replace").splitlines():
        # The start is five words, as in Mon Nov 16 09:21:07 2026.
        pid, parent, state, *rest = line.split(maxsplit=8)
        if not state.startswith("Z") and len(rest) > 4:
            found.append(Listed(int(pid), int(parent), " ".join(rest[:5]), "".join(rest[5:])))
    return found
