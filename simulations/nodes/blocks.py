"""Files of blocks that all workers of a simulation read and write.

Where all workers are on one machine, blocks are in memory until they are brought to their file
(`simulations.nodes.shared_memory`). Elsewhere reading and writing are a system call each. Files are
opened and closed every time, which is when a network file system looks for what other machines
wrote, unless there are none (`HeldFile`); mapped pages, in which clients of several machines lie
side by side, would overwrite each other.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote
from weakref import finalize

import numpy as np
from numpy.typing import NDArray

from fedau_flwr.arrays import Arrays, added
from fedau_flwr.files import save_text
from simulations.nodes.shared_memory import opened_memory, shared_memory, touch, written

_MOST_BUFFERS = 1024
"""That a system call takes."""
_ALIGNED = 64
_FOR_BOTH = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
_STAMP = np.dtype((np.int64, 2))
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
    places : int (default: 0)
        How many blocks there may be, if they are to be in memory where that is shared.
    """

    def __init__(self, path: Path, arrays: np.dtype[Any], places: int = 0) -> None:
        self._path = path
        self._dtype = np.dtype([("stamp", _STAMP), ("arrays", arrays)])
        self._fields = [(name, name[1:], arrays[name].base) for name in arrays.names or ()]
        self._distance = -(-self._dtype.itemsize // _ALIGNED) * _ALIGNED
        self._memory = shared_memory(path, places * self._distance) if places else None

    @classmethod
    def like(cls, path: Path, arrays: Arrays, places: int = 0) -> Blocks:
        """Make the file for such arrays; workers that do it at the same time write the same."""
        # A field needs a name, which the value of a scalar part has not.
        layout = [(f".{name}", value.dtype.str, value.shape) for name, value in arrays.items()]
        save_text(path.with_suffix(".json"), json.dumps(layout))
        return cls(path, np.dtype(layout), places)

    @classmethod
    def of(cls, layout: Path, places: int = 0) -> Blocks:
        """Open the file whose layout is in `layout`."""
        entries = json.loads(layout.read_text())
        shapes = [(name, kind, tuple(shape)) for name, kind, shape in entries]
        return cls(layout.with_suffix(".bin"), np.dtype(shapes), places)

    def stamp(self, place: int) -> Stamp:
        """Return round and attempt of what is at a place, 0 if nothing is."""
        found = self._in_memory(place)["stamp"]
        if not found.any():
            found = read_at(self._path, place * self._dtype.itemsize, np.dtype(np.int64), 2)
        return int(found[0]), int(found[1])

    def read(self, place: int) -> Arrays:
        """Return the arrays at a place, which nobody may change."""
        block = self._in_memory(place)
        if not block["stamp"].any():
            block = read_at(self._path, place * self._dtype.itemsize, self._dtype, 1)[0]
        values = block["arrays"]
        arrays = {name: np.asarray(values[field]) for field, name, _ in self._fields}
        for value in arrays.values():
            value.flags.writeable = False
        return arrays

    def write(self, place: int, stamp: Stamp, arrays: Arrays, change: Arrays | None = None) -> None:
        """Replace the arrays at a place by others, or by their sum with a change to them."""
        block = self._in_memory(place)
        if block["stamp"].any():
            touch(np.ndarray(self._dtype.itemsize, np.uint8, self._memory, place * self._distance))
            places = block["arrays"]
            for field, name, _ in self._fields:
                if change is None:
                    places[field][...] = arrays[name]
                else:
                    np.add(arrays[name], change[name], out=places[field])
            block["stamp"] = stamp
            return
        if change is not None:
            arrays = added(arrays, change)
        values = [np.asarray(arrays[name], kind) for _, name, kind in self._fields]
        whole = [np.array(stamp, np.int64), *values]
        if self._memory is None:
            write_at(self._path, place * self._dtype.itemsize, whole)
            return
        # The kernel makes all of its pages at once, and else one after the other.
        with opened_memory(self._path) as memory:
            assert memory is not None
            _write(memory, place * self._distance, whole)

    def _in_memory(self, place: int) -> NDArray[Any]:
        """Return the block at a place in memory, which has no stamp if it is not there."""
        if self._memory is None:
            return np.zeros((), [("stamp", _STAMP)])
        return np.ndarray((), self._dtype, self._memory, place * self._distance)

    def save(self) -> None:
        """Bring to the file what workers have in memory, and the file has not."""
        size, distance = self._dtype.itemsize, self._distance
        with opened_memory(self._path) as memory:
            if memory is None:
                return
            for start, end in written(memory):
                for place in range(start // distance, -(-end // distance)):
                    stamp, at = os.pread(memory, _STAMP.itemsize, place * distance), place * size
                    if any(stamp) and stamp != read_at(self._path, at, _STAMP, 1).tobytes():
                        block = os.pread(memory, size, place * distance)
                        write_at(self._path, at, [np.frombuffer(block, np.uint8)])


class NamedBlocks:
    """Groups of arrays by name, each name in a file of blocks that begins with `prefix`."""

    def __init__(self, directory: Path, prefix: str, places: int = 0) -> None:
        self._directory, self._prefix, self._places = directory, prefix, places
        self._files: dict[str, Blocks] = {}

    def read(self, place: int, count: int, stamp: Stamp | None = None) -> dict[str, Arrays]:
        """Return the `count` groups at a place that were written together, last or with `stamp`."""
        names = self._names(place, stamp)
        if len(names) < count:
            # Another worker has made a file since.
            for path in self._directory.glob(f"{self._prefix}-*.json"):
                name = unquote(path.stem.removeprefix(f"{self._prefix}-"))
                self._files[name] = Blocks.of(path, self._places)
            names = self._names(place, stamp)
        if len(names) < count:
            raise OSError(f"{self._directory} has lost {count - len(names)} of a client's arrays.")
        return {name: self._files[name].read(place) for name in names}

    def _names(self, place: int, stamp: Stamp | None) -> list[str]:
        stamps = {name: blocks.stamp(place) for name, blocks in self._files.items()}
        # A client's later attempts have larger numbers, and so have later rounds of an attempt.
        wanted = stamp or max(stamps.values(), key=lambda found: found[::-1], default=None)
        return [name for name, found in stamps.items() if found == wanted and any(found)]

    def write(self, place: int, stamp: Stamp, groups: Mapping[str, tuple[Arrays, ...]]) -> None:
        """Write groups of arrays, each perhaps with a change to them, together at a place."""
        for name, terms in groups.items():
            if name not in self._files:
                path = self._directory / f"{self._prefix}-{quote(name, safe='')}.bin"
                self._files[name] = Blocks.like(path, terms[0], self._places)
            self._files[name].write(place, stamp, *terms)


def alone(groups: Mapping[str, Arrays]) -> dict[str, tuple[Arrays, ...]]:
    """Return groups to write without a change to any."""
    return {name: (arrays,) for name, arrays in groups.items()}


class HeldFile:
    """A file that stays open, which saves what it takes to find it every time."""

    def __init__(self, path: Path) -> None:
        self.handle = os.open(path, _FOR_BOTH, 0o600)
        finalize(self, os.close, self.handle)


def read_at(path: Path | HeldFile, start: int, dtype: np.dtype[Any], count: int) -> NDArray[Any]:
    """Return the `count` items that begin at a byte; zeros where nothing has been written."""
    items = np.empty(count, dtype)
    data, done = items.view(np.uint8).data, 0
    with suppress(FileNotFoundError):
        file = path.handle if isinstance(path, HeldFile) else os.open(path, os.O_RDONLY)
        try:
            while done < len(data) and (read := os.preadv(file, [data[done:]], start + done)):
                done += read
        finally:
            if not isinstance(path, HeldFile):
                os.close(file)
    items.view(np.uint8)[done:] = 0
    return items


def write_at(path: Path | HeldFile, start: int, arrays: Sequence[NDArray[Any]]) -> None:
    """Write arrays one after the other; the file takes up space only where something is written."""
    if isinstance(path, HeldFile):
        _write(path.handle, start, arrays)
        return
    file = os.open(path, _FOR_BOTH, 0o600)
    try:
        _write(file, start, arrays)
    finally:
        os.close(file)


def _write(file: int, start: int, arrays: Sequence[NDArray[Any]]) -> None:
    views = [np.ascontiguousarray(array).reshape(-1).view(np.uint8).data for array in arrays]
    while views:
        done = os.pwritev(file, views[:_MOST_BUFFERS], start)
        start += done
        while views and done >= len(views[0]):
            done -= len(views.pop(0))
        if views:
            views[0] = views[0][done:]
