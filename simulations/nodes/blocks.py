"""Files of blocks that all workers of a simulation read and write.

Reading and writing are a system call each, since on one machine the files stay in memory. They are
opened and closed every time, which is when a network file system looks for what other machines
wrote; mapped pages, in which clients of several machines lie side by side, would overwrite each
other.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedau_flwr.arrays import Arrays
from fedau_flwr.files import save_text


class Blocks:
    """The blocks of one name: a stamp with round and attempt, and arrays of fixed shapes.

    Parameters
    ----------
    path : Path
        The file of the blocks.
    arrays : numpy dtype
        Names, types and shapes of the arrays in a block.
    """

    def __init__(self, path: Path, arrays: np.dtype[Any]) -> None:
        self._path = path
        self._dtype = np.dtype([("stamp", np.int64, 2), ("arrays", arrays)])

    @classmethod
    def like(cls, path: Path, arrays: Arrays) -> Blocks:
        """Make the file for such arrays; workers that do it at the same time write the same."""
        # A field needs a name, which the value of a scalar part has not.
        layout = [(f".{name}", value.dtype.str, value.shape) for name, value in arrays.items()]
        save_text(path.with_suffix(".json"), json.dumps(layout))
        return cls(path, np.dtype(layout))

    @classmethod
    def of(cls, layout: Path) -> Blocks:
        """Open the file whose layout is in `layout`."""
        entries = json.loads(layout.read_text())
        shapes = [(name, kind, tuple(shape)) for name, kind, shape in entries]
        return cls(layout.with_suffix(".bin"), np.dtype(shapes))

    def read(self, place: int, stamp: tuple[int, int]) -> Arrays | None:
        """Return the arrays at a place, None if they do not belong to this round and attempt."""
        start = place * self._dtype.itemsize
        if tuple(read_at(self._path, start, np.dtype(np.int64), 2)) != stamp:
            return None
        block = read_at(self._path, start, self._dtype, 1)[0]
        names = self._dtype["arrays"].names or ()
        return {name[1:]: np.asarray(block["arrays"][name]) for name in names}

    def write(self, place: int, stamp: tuple[int, int], arrays: Arrays) -> None:
        """Replace the arrays at a place, straight from where they are."""
        names = self._dtype["arrays"].names or ()
        kinds = [self._dtype["arrays"][name].base for name in names]
        values = [np.asarray(arrays[n[1:]], kind) for n, kind in zip(names, kinds, strict=True)]
        write_at(self._path, place * self._dtype.itemsize, [np.array(stamp, np.int64), *values])


def read_at(path: Path, start: int, dtype: np.dtype[Any], count: int) -> NDArray[Any]:
    """Return the `count` items that begin at a byte; zeros where nothing has been written."""
    items = np.empty(count, dtype)
    data, done = items.view(np.uint8).data, 0
    with suppress(FileNotFoundError), path.open("rb", buffering=0) as file:
        while done < len(data) and (read := os.preadv(file.fileno(), [data[done:]], start + done)):
            done += read
    items.view(np.uint8)[done:] = 0
    return items


def write_at(path: Path, start: int, arrays: Sequence[NDArray[Any]]) -> None:
    """Write arrays one after the other; the file takes up space only where something is written."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        for array in arrays:
            data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
            while data:
                written = os.pwrite(file, data, start)
                start, data = start + written, data[written:]
    finally:
        os.close(file)
