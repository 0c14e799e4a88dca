"""Files of blocks that all workers of a simulation read and write.

Reading and writing are a system call each, since on one machine the files stay in memory. They are
opened and closed every time, which is when a network file system looks for what other machines
wrote; mapped pages, in which clients of several machines lie side by side, would overwrite each
other.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import numpy as np
from numpy.typing import NDArray

from fedau_flwr.arrays import Arrays
from fedau_flwr.files import save_text

_MOST_BUFFERS = 1024
"""That a system call takes."""
Stamp = tuple[int, int]
"""Round and attempt in which arrays were written."""


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

    def stamp(self, place: int) -> Stamp:
        """Return round and attempt of what is at a place, 0 if nothing is."""
        found = read_at(self._path, place * self._dtype.itemsize, np.dtype(np.int64), 2)
        return int(found[0]), int(found[1])

    def read(self, place: int) -> Arrays:
        """Return the arrays at a place, which nobody may change."""
        block = read_at(self._path, place * self._dtype.itemsize, self._dtype, 1)[0]
        names = self._dtype["arrays"].names or ()
        arrays = {name[1:]: np.asarray(block["arrays"][name]) for name in names}
        for value in arrays.values():
            value.flags.writeable = False
        return arrays

    def write(self, place: int, stamp: Stamp, arrays: Arrays) -> None:
        """Replace the arrays at a place, straight from where they are."""
        names = self._dtype["arrays"].names or ()
        kinds = [self._dtype["arrays"][name].base for name in names]
        values = [np.asarray(arrays[n[1:]], kind) for n, kind in zip(names, kinds, strict=True)]
        write_at(self._path, place * self._dtype.itemsize, [np.array(stamp, np.int64), *values])


class NamedBlocks:
    """Groups of arrays by name, each name in a file of blocks that begins with `prefix`."""

    def __init__(self, directory: Path, prefix: str) -> None:
        self._directory, self._prefix = directory, prefix
        self._files: dict[str, Blocks] = {}

    def read(self, place: int, count: int, stamp: Stamp | None = None) -> dict[str, Arrays]:
        """Return the `count` groups at a place that were written together, last or with `stamp`."""
        names = self._names(place, stamp)
        if len(names) < count:
            # Another worker has made a file since.
            for path in self._directory.glob(f"{self._prefix}-*.json"):
                name = unquote(path.stem.removeprefix(f"{self._prefix}-"))
                self._files[name] = Blocks.of(path)
            names = self._names(place, stamp)
        if len(names) < count:
            raise OSError(f"{self._directory} has lost {count - len(names)} of a client's arrays.")
        return {name: self._files[name].read(place) for name in names}

    def _names(self, place: int, stamp: Stamp | None) -> list[str]:
        stamps = {name: blocks.stamp(place) for name, blocks in self._files.items()}
        # A client's later attempts have larger numbers, and so have later rounds of an attempt.
        wanted = stamp or max(stamps.values(), key=lambda found: found[::-1], default=None)
        return [name for name, found in stamps.items() if found == wanted and any(found)]

    def write(self, place: int, stamp: Stamp, groups: Mapping[str, Arrays]) -> None:
        """Write groups of arrays together at a place."""
        for name, arrays in groups.items():
            if name not in self._files:
                path = self._directory / f"{self._prefix}-{quote(name, safe='')}.bin"
                self._files[name] = Blocks.like(path, arrays)
            self._files[name].write(place, stamp, arrays)


def read_at(path: Path, start: int, dtype: np.dtype[Any], count: int) -> NDArray[Any]:
    """Return the `count` items that begin at a byte; zeros where nothing has been written."""
    items = np.empty(count, dtype)
    data, done = items.view(np.uint8).data, 0
    with suppress(FileNotFoundError):
        file = os.open(path, os.O_RDONLY)
        try:
            while done < len(data) and (read := os.preadv(file, [data[done:]], start + done)):
                done += read
        finally:
            os.close(file)
    items.view(np.uint8)[done:] = 0
    return items


def write_at(path: Path, start: int, arrays: Sequence[NDArray[Any]]) -> None:
    """Write arrays one after the other; the file takes up space only where something is written."""
    views = [np.ascontiguousarray(array).reshape(-1).view(np.uint8).data for array in arrays]
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        while views:
            written = os.pwritev(file, views[:_MOST_BUFFERS], start)
            start += written
            while views and written >= len(views[0]):
                written -= len(views.pop(0))
            if views:
                views[0] = views[0][written:]
    finally:
        os.close(file)
