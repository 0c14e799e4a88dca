"""Memory that all workers of a machine share, for what a file gets at the next checkpoint.

The kernel copies a block of a file when it is read and again when it is written, and brings it to
the disk every so many seconds, however often it changes. What is in memory is read where it lies.
The worker that is first makes it, and it ends with that worker, so that nothing is left behind.
The simulator's directory on this machine says where it is; without one there is none.
"""

from __future__ import annotations

import mmap
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from uuid import uuid4

import numpy as np
import psutil
from numpy.typing import NDArray

from fedau_flwr.files import make_private_folder
from simulations.runs.shared_arrays import DIRECTORY

SHARE = 4
"""No more than one part in so many of the memory that is available is shared."""
_AROUND = 1 << 16
"""Bytes that Linux maps around a page that is read."""
_MADE: dict[Path, int] = {}
"""Handles of what this process has made, which others open by way of this process."""


def shared_memory(path: Path, size: int) -> mmap.mmap | None:
    """Return the memory above a file, which is made if need be; None if there can be none."""
    place = _place(path)
    if place is not None and not place.exists() and hasattr(os, "memfd_create"):
        _make(place, size)
    with opened_memory(path) as memory:
        return None if memory is None else mmap.mmap(memory, 0)


@contextmanager
def opened_memory(path: Path) -> Iterator[int | None]:
    """Provide a handle of the memory above a file if there is any."""
    place = _place(path)
    if place is None or not place.exists() or not (where := place.read_text()):
        yield None
        return
    memory = os.open(where, os.O_RDWR | os.O_CLOEXEC)
    try:
        yield memory
    finally:
        os.close(memory)


def forget_memory(directory: Path) -> None:
    """Forget what was above the files of a directory before, in another attempt."""
    if (place := _place(directory / "any")) is not None:
        shutil.rmtree(place.parent, ignore_errors=True)
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
    with suppress(OSError):  # nothing more
        while True:
            start = os.lseek(memory, end, os.SEEK_DATA)
            end = os.lseek(memory, start, os.SEEK_HOLE)
            yield start, end


def _place(path: Path) -> Path | None:
    """Return the file that says where the memory above `path` is."""
    if not (directory := os.environ.get(DIRECTORY)):
        return None
    folder = sha256(os.fsencode(path.parent.absolute())).hexdigest()[:24]
    return Path(directory) / f"memory-{folder}" / path.name


def _make(place: Path, size: int) -> None:
    """Make memory for as long as this process lives, unless it is too much or somebody has."""
    where, memory = "", None
    if size <= psutil.virtual_memory().available // SHARE:
        memory = os.memfd_create(place.name)
        os.ftruncate(memory, size)
        where = f"/proc/{os.getpid()}/fd/{memory}"
    make_private_folder(place.parent)
    own = place.with_name(f"{place.name}-{uuid4().hex}")
    own.write_text(where)
    try:
        place.hardlink_to(own)
    except FileExistsError:
        if memory is not None:
            os.close(memory)
    else:
        if memory is not None:
            _MADE[place] = memory
    finally:
        own.unlink()
