"""The participation states of all clients of a simulation, in files that every worker reaches.

A host serves other clients in every round, so states live where all workers reach them: in the
run's directory, which several machines have to share. A client has a record of fixed size with two
slots, and under MIFA and FedVARP a place for two vectors per slot in a second, sparse file. Two
slots are enough: a simulation only ever resumes from its last checkpoint, so of the versions that a
`Participant` keeps, the first (the newest one before the checkpoint) and the last are all that can
be asked for again.

Reading and writing are a system call each, since on one machine the files stay in memory. They are
opened and closed every time, which is when a network file system looks for what other machines
wrote; mapped pages, in which clients of several machines lie side by side, would overwrite each
other. `flush` makes everything durable, which the round loop calls before a checkpoint: what was
written before stays untouched until the next one, so a crash in between cannot hurt it. No two
workers ever serve the same client at a time, so there are no locks.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedau_flwr.arrays import Arrays
from fedau_flwr.client.store import Store, Version
from fedau_flwr.weight_state import WeightState

SLOTS = 2
_SLOT = np.dtype(
    [
        ("round", np.int64),
        ("attempt", np.int64),
        ("intervals", np.int64),
        ("elapsed", np.int64),
        ("weight", np.float64),
        ("vectors", np.int64),
    ]
)
RECORD_BYTES = SLOTS * _SLOT.itemsize
VECTORS_PER_CLIENT = 2 * SLOTS
_NO_VECTORS, _SENT_ONLY, _BOTH = 0, 1, 2
_MEMORY, _SENT = 0, 1

Layout = Mapping[str, tuple[int, ...]]


class ClientStates:
    """The states of clients in `directory`.

    Parameters
    ----------
    directory : Path
        Made if it is not there.
    layout : Layout
        Names and shapes of the model's arrays, all float32.
    """

    def __init__(self, directory: Path, layout: Layout) -> None:
        self._records = directory / "states.bin"
        self._vectors = directory / "vectors.bin"
        self._layout = dict(layout)
        self._parameters = sum(math.prod(shape) for shape in layout.values())
        directory.mkdir(parents=True, exist_ok=True)

    def client(self, number: int) -> Store:
        """Return the store of one client."""
        return _ClientStore(self, number)

    def record(self, number: int) -> NDArray[Any]:
        """Return a copy of the slots of a client."""
        return _read(self._records, number, _SLOT, SLOTS)

    def put_record(self, number: int, record: NDArray[Any]) -> None:
        """Write the slots of a client."""
        _write(self._records, number, record)

    def vector(self, number: int, slot: int, kind: int) -> Arrays:
        """Return the memory or the sent vector of a slot as the arrays of the model."""
        place = (number * SLOTS + slot) * 2 + kind
        vector = _read(self._vectors, place, np.dtype(np.float32), self._parameters)
        arrays, start = {}, 0
        for name, shape in self._layout.items():
            stop = start + math.prod(shape)
            arrays[name] = vector[start:stop].reshape(shape)
            start = stop
        return arrays

    def put_vector(self, number: int, slot: int, kind: int, arrays: Arrays) -> None:
        """Write the memory or the sent vector of a slot."""
        vector = np.concatenate([arrays[name].reshape(-1) for name in self._layout])
        _write(self._vectors, (number * SLOTS + slot) * 2 + kind, vector.astype(np.float32))


class _ClientStore(Store):
    """One client's two slots."""

    def __init__(self, states: ClientStates, number: int) -> None:
        self._states = states
        self._number = number

    def load(self, training: str) -> list[Version]:
        """Return the versions, oldest first; a directory holds the states of one training."""
        del training
        record = self._states.record(self._number)
        slots = [slot for slot in range(SLOTS) if record[slot]["round"]]
        # A later attempt may have gone back: it, not the round, says which version is newer.
        slots.sort(key=lambda slot: (record[slot]["attempt"], record[slot]["round"]))
        return [self._version(slot, record[slot]) for slot in slots]

    def _version(self, slot: int, entry: Any) -> Version:
        number = int(entry["round"])
        memory = sent = None
        if entry["vectors"] != _NO_VECTORS:
            sent = {"update": self._states.vector(self._number, slot, _SENT)}
            both = entry["vectors"] == _BOTH
            memory = {"last": self._states.vector(self._number, slot, _MEMORY)} if both else {}
        state = WeightState(
            number - 1, int(entry["intervals"]), int(entry["elapsed"]), float(entry["weight"])
        )
        # In a simulation clients are counted by number, whoever hosts them.
        return Version(number, int(entry["attempt"]), self._number, state, memory, sent)

    def save(self, training: str, versions: Sequence[Version]) -> None:
        """Keep the first and the last version; one that is there already is not touched."""
        del training
        record = self._states.record(self._number)
        kept = versions[0] if len(versions) > 1 else None
        held = [
            slot
            for slot in range(SLOTS)
            if kept is not None
            and (record[slot]["round"], record[slot]["attempt"]) == (kept.round, kept.attempt)
        ]
        if kept is not None and not held:
            held = [0]
            self._write(record, 0, kept)
        free = next(slot for slot in range(SLOTS) if slot not in held)
        for slot in range(SLOTS):
            if slot not in held:
                record[slot]["round"] = 0
        self._write(record, free, versions[-1])

    def _write(self, record: NDArray[Any], slot: int, version: Version) -> None:
        entry = record[slot]
        kind = _NO_VECTORS
        if version.sent is not None:
            # The round makes a slot valid, so it goes before its vectors change.
            entry["round"] = 0
            self._states.put_record(self._number, record)
            self._states.put_vector(self._number, slot, _SENT, version.sent["update"])
            if version.memory:
                self._states.put_vector(self._number, slot, _MEMORY, version.memory["last"])
            kind = _BOTH if version.memory else _SENT_ONLY
        entry["vectors"] = kind
        for name in ("intervals", "elapsed", "weight"):
            entry[name] = getattr(version.state, name)
        entry["attempt"] = version.attempt
        entry["round"] = version.round
        self._states.put_record(self._number, record)


def flush(directory: Path) -> None:
    """Make durable what the workers have written into `directory`."""
    for path in directory.glob("*.bin"):
        with path.open("rb") as file:
            os.fsync(file.fileno())


def _read(path: Path, place: int, dtype: np.dtype[Any], count: int) -> NDArray[Any]:
    """Return the block of `count` items at a place; zeros where nothing has been written."""
    block = np.zeros(count, dtype)
    try:
        with path.open("rb", buffering=0) as file:
            os.preadv(file.fileno(), [memoryview(block).cast("B")], place * block.nbytes)
    except FileNotFoundError:
        pass
    return block


def _write(path: Path, place: int, block: NDArray[Any]) -> None:
    """Write a block at its place; the file takes up space only where something is written."""
    data = memoryview(block.tobytes())
    file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    try:
        done = 0
        while done < len(data):
            done += os.pwrite(file, data[done:], place * len(data) + done)
    finally:
        os.close(file)
