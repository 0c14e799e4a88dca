"""The participation states of all clients of a simulation, in files that every worker maps.

A host serves other clients in every round, so states live where all workers of a machine reach
them. A client has a record of fixed size with two slots, and under MIFA and FedVARP a place for two
vectors per slot in a second, sparse file. Two slots are enough: a simulation only ever resumes from
its last checkpoint, so of the versions that a `Participant` keeps, the first (the newest one before
the checkpoint) and the last are all that can be asked for again.

Writing costs a copy into shared pages. `flush` makes it durable, which the round loop calls before
a checkpoint: what was written before stays untouched until the next one, so a crash in between
cannot hurt it. No two workers ever serve the same client at a time, so there are no locks.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedau_flwr.store import Arrays, Store, Version
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
_NO_VECTORS, _SENT_ONLY, _BOTH = 0, 1, 2

Layout = Mapping[str, tuple[int, ...]]


class ClientStates:
    """The states of `clients` clients in `directory`.

    Parameters
    ----------
    directory : Path
        Made if it is not there.
    clients : int
        Number of clients.
    layout : Layout
        Names and shapes of the model's arrays, all float32.
    """

    def __init__(self, directory: Path, clients: int, layout: Layout) -> None:
        self._directory = directory
        self._layout = dict(layout)
        self._sizes = {name: math.prod(shape) for name, shape in layout.items()}
        self._clients = clients
        self._vectors: NDArray[np.float32] | None = None
        directory.mkdir(parents=True, exist_ok=True)
        self.records = _mapped(directory / "states.bin", _SLOT, (clients, SLOTS))

    def client(self, number: int) -> Store:
        """Return the store of one client."""
        return _ClientStore(self, number)

    def vectors(self) -> NDArray[np.float32]:
        """Return the places for vectors, ``[client, slot, (memory, sent), parameter]``."""
        if self._vectors is None:
            shape = (self._clients, SLOTS, 2, sum(self._sizes.values()))
            self._vectors = _mapped(self._directory / "vectors.bin", np.dtype(np.float32), shape)
        return self._vectors

    def split(self, vector: NDArray[np.float32]) -> Arrays:
        """Return a copy of a stored vector as the arrays of the model."""
        arrays, start = {}, 0
        for name, shape in self._layout.items():
            stop = start + self._sizes[name]
            arrays[name] = np.array(vector[start:stop]).reshape(shape)
            start = stop
        return arrays

    def join(self, arrays: Arrays, vector: NDArray[np.float32]) -> None:
        """Write the arrays of the model into the place of a vector."""
        start = 0
        for name, size in self._sizes.items():
            vector[start : start + size] = arrays[name].reshape(-1)
            start += size


class _ClientStore(Store):
    """One client's two slots."""

    def __init__(self, states: ClientStates, number: int) -> None:
        self._states = states
        self._number = number

    def load(self, training: str) -> list[Version]:
        """Return the versions, oldest first; a directory holds the states of one training."""
        del training
        record = self._states.records[self._number]
        slots = [slot for slot in range(SLOTS) if record[slot]["round"]]
        # A later attempt may have gone back: it, not the round, says which version is newer.
        slots.sort(key=lambda slot: (record[slot]["attempt"], record[slot]["round"]))
        return [self._version(slot) for slot in slots]

    def _version(self, slot: int) -> Version:
        entry = self._states.records[self._number, slot]
        number = int(entry["round"])
        memory = sent = None
        if entry["vectors"] != _NO_VECTORS:
            places = self._states.vectors()[self._number, slot]
            sent = self._states.split(places[1])
            memory = self._states.split(places[0]) if entry["vectors"] == _BOTH else {}
        state = WeightState(
            number - 1, int(entry["intervals"]), int(entry["elapsed"]), float(entry["weight"])
        )
        # In a simulation clients are counted by number, whoever hosts them.
        return Version(number, int(entry["attempt"]), self._number, state, memory, sent)

    def save(self, training: str, versions: Sequence[Version]) -> None:
        """Keep the first and the last version; one that is there already is not touched."""
        del training
        record = self._states.records[self._number]
        kept = versions[0] if len(versions) > 1 else None
        held = [
            slot
            for slot in range(SLOTS)
            if kept is not None
            and (record[slot]["round"], record[slot]["attempt"]) == (kept.round, kept.attempt)
        ]
        if kept is not None and not held:
            held = [0]
            self._write(0, kept)
        free = next(slot for slot in range(SLOTS) if slot not in held)
        for slot in range(SLOTS):
            if slot not in held:
                record[slot]["round"] = 0
        self._write(free, versions[-1])

    def _write(self, slot: int, version: Version) -> None:
        entry = self._states.records[self._number, slot]
        # The round makes a slot valid, so it goes first when leaving and last when coming.
        entry["round"] = 0
        if version.sent is None:
            entry["vectors"] = _NO_VECTORS
        else:
            places = self._states.vectors()[self._number, slot]
            self._states.join(version.sent, places[1])
            if version.memory:
                self._states.join(version.memory, places[0])
            entry["vectors"] = _BOTH if version.memory else _SENT_ONLY
        state = version.state
        for name in ("intervals", "elapsed", "weight"):
            entry[name] = getattr(state, name)
        entry["attempt"] = version.attempt
        entry["round"] = version.round


def flush(directory: Path) -> None:
    """Make durable what all workers of this machine have written into `directory`."""
    for path in directory.glob("*.bin"):
        with path.open("rb") as file:
            os.fsync(file.fileno())


def _mapped(path: Path, dtype: np.dtype, shape: tuple[int, ...]) -> NDArray:
    """Map a file of zeros, which takes up space only where something is written."""
    size = math.prod(shape) * dtype.itemsize
    with path.open("ab") as file:
        if file.tell() < size:
            file.truncate(size)
    return np.memmap(path, dtype, "r+", shape=shape)
