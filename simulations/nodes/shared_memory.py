"""Memory that all workers of a machine share, for what a file gets at the next checkpoint.

The kernel copies a block of a file when it is read and again when it is written, and brings it to
the disk every so many seconds, however often it changes. What is in memory is read where it lies.
The worker that is first makes it, and it ends with that worker, so that nothing is left behind.
A link in the simulator's directory leads to it; without such a directory there is none.
"""

from __future__ import annotations

import errno
import mmap
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

import numpy as np
import psutil
from numpy.typing import NDArray

from fedau_flwr.files import make_private_folder
from simulations.runs.shared_arrays import DIRECTORY

SHARE = 4
"""No more than one part in so many of the memory that is available is shared."""
_LIMITS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)
"""Of a container: the most that it may use, and what it does."""
_AROUND = 1 << 16
"""Bytes that Linux maps around a page that is read."""
_NONE = "-"
_MADE: dict[Path, int] = {}
"""Handles of what this process has made, by which others reach it."""


def shared_memory(path: Path, size: int) -> mmap.mmap | None:
    """Return the memory above a file, which is made if need be; None if there can be none."""
    place = _place(path)
    if place is not None and not place.is_symlink():
        _make(place, size)
    with opened_memory(path) as memory:
        return None if memory is None else mmap.mmap(memory, 0)


@contextmanager
def opened_memory(path: Path) -> Iterator[int | None]:
    """Provide a handle of the memory above a file if there is any."""
    place = _place(path)
    if place is None or not place.is_symlink() or os.readlink(place) == _NONE:
        yield None
        return
    memory = -1
    try:
        with suppress(FileNotFoundError):
            memory = os.open(place, os.O_RDWR | os.O_CLOEXEC)
        # The number of a process that has ended may be another one's by now.
        if memory < 0 or not os.readlink(f"/proc/self/fd/{memory}").startswith("/memfd:"):
            raise OSError(
                "a worker has ended, and with it what clients remember since the last checkpoint"
            )
        yield memory
    finally:
        if memory >= 0:
            os.close(memory)


def forget_memory(directory: Path) -> None:
    """Forget what was above the files of a directory before, in another attempt."""
    place = _place(directory / "any")
    if place is None or not place.parent.exists():
        return
    shutil.rmtree(place.parent)
    for own in [own for own in _MADE if own.parent == place.parent]:
        os.close(_MADE.pop(own))


def touch(block: NDArray[np.uint8]) -> None:
    """Have the pages of a block mapped that another worker has written, many at a time.

    The kernel maps those around one that is read, but only one that is written.
    """
    block[::_AROUND].max(initial=0)


def written(memory: int) -> Iterator[tuple[int, int]]:
    """Yield where memory has been written, from and to which byte."""
    end = 0
    while True:
        try:
            start = os.lseek(memory, end, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # nothing more
                return
            raise
        end = os.lseek(memory, start, os.SEEK_HOLE)
        yield start, end


def _place(path: Path) -> Path | None:
    """Return the link to the memory above `path`."""
    if not (directory := os.environ.get(DIRECTORY)):
        return None
    folder = sha256(os.fsencode(path.parent.absolute())).hexdigest()[:24]
    return Path(directory) / f"memory-{folder}" / path.name


def _make(place: Path, size: int) -> None:
    """Make memory for as long as this process lives, unless somebody else has."""
    make_private_folder(place.parent)
    memory = _new_memory(place, size)
    try:
        place.symlink_to(_NONE if memory is None else _handle(memory))
    except FileExistsError:
        if memory is not None:
            os.close(memory)
    else:
        if memory is not None:
            _MADE[place] = memory


def _new_memory(place: Path, size: int) -> int | None:
    """Return a handle of empty memory; None if it would be too much, or does not work here."""
    if not hasattr(os, "memfd_create") or size > _available(place.parent) // SHARE:
        return None
    memory = -1
    try:
        memory = os.memfd_create(place.name)
        os.ftruncate(memory, size)
        list(written(memory))
        os.close(os.open(_handle(memory), os.O_RDWR))
    except OSError:
        if memory >= 0:
            os.close(memory)
        return None
    return memory


def _handle(memory: int) -> str:
    """Return where other processes find memory of this one."""
    return f"/proc/{os.getpid()}/fd/{memory}"


def _available(folder: Path) -> int:
    """Return how much memory there is for what `folder` will have links to."""
    found = [psutil.virtual_memory().available]
    for limit, usage in _LIMITS:
        with suppress(OSError, ValueError):  # no such limit
            found.append(int(Path(limit).read_text()) - int(Path(usage).read_text()))
    promised = sum(link.stat().st_size for link in folder.iterdir() if link.exists())
    return min(found) - SHARE * promised
