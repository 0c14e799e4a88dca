"""Who was there in which round: two bits per client and round, in one file that only grows.

After 8 bytes (``FEDAU``, 0, 0, 1) and the number of clients as 4 bytes, little-endian, comes a
record per round, the first round first, with four clients to a byte, the first one in its lowest
bits. A record has the same length in all rounds, so that a round is found by its number.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

ABSENT, LOST, REJECTED, COUNTED = range(4)
"""Was not asked; was asked, but no reply came or none that says more; its reply was rejected; is
in the sum."""

_MAGIC = b"FEDAU\0\0\1"
_HEAD = len(_MAGIC) + 4
_SHIFTS = np.array([0, 2, 4, 6], np.uint8)

States = NDArray[np.uint8]


class RasterFile:
    """The file of a run; `clients` is how many there are."""

    def __init__(self, path: Path, clients: int) -> None:
        self._path = path
        self.clients = clients

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open a file to read; it is a ValueError if it is none."""
        with path.open("rb") as file:
            head = file.read(_HEAD)
        if len(head) < _HEAD or not head.startswith(_MAGIC):
            raise ValueError(f"{path.name} is not a raster of this version.")
        return cls(path, int.from_bytes(head[len(_MAGIC) :], "little"))

    @property
    def width(self) -> int:
        """Bytes of a record."""
        return -(-self.clients // 4)

    @property
    def rounds(self) -> int:
        """Number of whole records."""
        return (self._path.stat().st_size - _HEAD) // self.width

    def begin(self, rounds: int) -> None:
        """Have the first `rounds` rounds and no other; those that nobody wrote down are empty."""
        if rounds and self._path.exists():
            self.clients = RasterFile.open(self._path).clients
        else:
            self._path.write_bytes(_MAGIC + self.clients.to_bytes(4, "little"))
        os.truncate(self._path, _HEAD + rounds * self.width)

    def append(self, states: States) -> None:
        """Add a round: the state of every client."""
        with self._path.open("ab") as file:
            file.write(pack(states).tobytes())

    def packed(self, first: int, last: int) -> bytes:
        """Return the records of the rounds `first` to `last`, from 1."""
        with self._path.open("rb") as file:
            file.seek(_HEAD + (first - 1) * self.width)
            return file.read(max(0, last - first + 1) * self.width)

    def widen(self, clients: int) -> None:
        """Make room for more clients."""
        rounds, old = self.rounds, self.width
        records = np.frombuffer(self.packed(1, rounds), np.uint8).reshape(rounds, old)
        self.clients = clients
        wider = np.zeros((rounds, self.width), np.uint8)
        wider[:, :old] = records
        self._path.write_bytes(_MAGIC + clients.to_bytes(4, "little") + wider.tobytes())


def pack(states: States) -> States:
    """Return the states along the last axis, four to a byte."""
    spare = -states.shape[-1] % 4
    padded = np.pad(states, [(0, 0)] * (states.ndim - 1) + [(0, spare)])
    quads = padded.reshape(*padded.shape[:-1], padded.shape[-1] // 4, 4)
    return np.asarray(np.bitwise_or.reduce(quads << _SHIFTS, axis=-1), np.uint8)


def unpack(packed: bytes, clients: int) -> States:
    """Return the states by round and client."""
    records = np.frombuffer(packed, np.uint8).reshape(-1, -(-clients // 4))
    states: States = np.bitwise_and(records[:, :, None] >> _SHIFTS, np.uint8(3))
    return np.asarray(states.reshape(len(records), 4 * records.shape[1])[:, :clients])


def states_of(
    clients: int, *, came: NDArray[np.int64], rejected: Sequence[int], counted: Sequence[int]
) -> States:
    """Return the states of a round."""
    states = np.zeros(clients, np.uint8)
    states[came] = LOST
    states[np.array(rejected, np.int64)] = REJECTED
    states[np.array(counted, np.int64)] = COUNTED
    return states
