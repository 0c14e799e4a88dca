"""The participation states of all clients of a simulation, in files that every worker reaches.

A host serves other clients in every round, so states live where all workers reach them: in the
run's directory, which several machines have to share. A client has a record of fixed size with two
slots. What a method lets clients remember or send is named arrays: each name has a sparse file of
blocks of equal size, one per slot, and beside it the names, types and shapes of the arrays in a
block; ``answered.bin`` has the rounds that a client has answered, where the run's rules need
them. Two slots are enough: a simulation only ever resumes from its last checkpoint, so of the
versions that a `Participant` keeps, the first (the newest one before the checkpoint) and the last
are all that can be asked for again.

Reading and writing are a system call each, since on one machine the files stay in memory. They are
opened and closed every time, which is when a network file system looks for what other machines
wrote; mapped pages, in which clients of several machines lie side by side, would overwrite each
other. `flush` makes everything durable, which the round loop calls before a checkpoint: what was
written before stays untouched until the next one, so a crash in between cannot hurt it. No two
workers ever serve the same client at a time, so there are no locks.
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
from fedau_flwr.client.answered import RECENT, Answers
from fedau_flwr.client.store import Kept, Store, Version
from fedau_flwr.files import make_private_folder, save_text
from fedau_flwr.weight_state import WeightState

SLOTS = 2
_SLOT = np.dtype(
    [
        ("round", np.int64),
        ("attempt", np.int64),
        ("intervals", np.int64),
        ("elapsed", np.int64),
        ("weight", np.float64),
        ("blocks", np.int64),
    ]
)
_ANSWERED = np.dtype(
    [
        ("count", np.int64),
        ("floor", np.int64),
        ("rounds", np.int64, RECENT),
        ("digests", np.uint64, RECENT),
    ]
)
RECORD_BYTES = SLOTS * _SLOT.itemsize
VECTORS_PER_CLIENT = 2 * SLOTS


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
        if tuple(_read(self._path, start, np.dtype(np.int64), 2)) != stamp:
            return None
        block = _read(self._path, start, self._dtype, 1)[0]
        names = self._dtype["arrays"].names or ()
        return {name[1:]: np.asarray(block["arrays"][name]) for name in names}

    def write(self, place: int, stamp: tuple[int, int], arrays: Arrays) -> None:
        """Replace the arrays at a place, straight from where they are."""
        names = self._dtype["arrays"].names or ()
        kinds = [self._dtype["arrays"][name].base for name in names]
        values = [np.asarray(arrays[n[1:]], kind) for n, kind in zip(names, kinds, strict=True)]
        _write(self._path, place * self._dtype.itemsize, [np.array(stamp, np.int64), *values])


MARK = "of-a-simulation"
"""A file that says that a server on this machine has made the directory for its nodes."""


def make_states(directory: Path) -> str:
    """Make the directory of a simulation's states; nodes write into no other, whoever asks."""
    make_private_folder(directory)
    (directory / MARK).touch(0o600)
    return str(directory)


class ClientStates:
    """The states of clients in `directory`, which is made if it is not there."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._records = directory / "states.bin"
        self.answered = directory / "answered.bin"
        self._blocks: dict[str, Blocks] = {}
        make_private_folder(directory)

    def client(self, number: int) -> Store:
        """Return the store of one client."""
        return _ClientStore(self, number)

    def record(self, number: int) -> NDArray[Any]:
        """Return a copy of the slots of a client."""
        return _read(self._records, number * RECORD_BYTES, _SLOT, SLOTS)

    def put_record(self, number: int, record: NDArray[Any]) -> None:
        """Write the slots of a client."""
        _write(self._records, number * RECORD_BYTES, [record])

    def arrays(self, place: int, stamp: tuple[int, int], count: int) -> dict[str, Arrays]:
        """Return the `count` groups of arrays of a slot by name."""
        found = self._read_all(place, stamp)
        if len(found) < count:
            # Another worker has made a file since.
            for path in self._directory.glob("arrays-*.json"):
                self._blocks[unquote(path.stem.removeprefix("arrays-"))] = Blocks.of(path)
            found = self._read_all(place, stamp)
        if len(found) < count:
            raise OSError(f"{self._directory} has lost {count - len(found)} of a client's arrays.")
        return found

    def _read_all(self, place: int, stamp: tuple[int, int]) -> dict[str, Arrays]:
        found = {name: blocks.read(place, stamp) for name, blocks in self._blocks.items()}
        return {name: arrays for name, arrays in found.items() if arrays is not None}

    def put_arrays(self, place: int, stamp: tuple[int, int], groups: Mapping[str, Arrays]) -> None:
        """Write the groups of arrays of a slot."""
        for name, arrays in groups.items():
            if name not in self._blocks:
                path = self._directory / f"arrays-{quote(name, safe='')}.bin"
                self._blocks[name] = Blocks.like(path, arrays)
            self._blocks[name].write(place, stamp, arrays)


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
        number, attempt, blocks = (int(entry[key]) for key in ("round", "attempt", "blocks"))
        state = WeightState(
            number - 1, int(entry["intervals"]), int(entry["elapsed"]), float(entry["weight"])
        )
        groups: dict[str, Arrays] = {}
        if blocks:
            groups = self._states.arrays(self._place(slot), (number, attempt), blocks)
        # In a simulation clients are counted by number, whoever hosts them.
        version = Version(number, attempt, self._number, state)
        return version.holding(_kept(groups)) if groups else version

    def _place(self, slot: int) -> int:
        return self._number * SLOTS + slot

    def save(self, training: str, versions: Sequence[Version]) -> None:
        """Keep the first and the last version; one that is there already is not touched."""
        del training
        record = self._states.record(self._number)
        if versions[-1].received is not None and self._received(record, versions[-1]):
            return
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

    def answers(self, training: str) -> Answers:
        """Return which rounds the client has answered."""
        del training
        (entry,) = _read(self._states.answered, self._number * _ANSWERED.itemsize, _ANSWERED, 1)
        pairs = zip(entry["rounds"].tolist(), entry["digests"].tolist(), strict=True)
        recent = tuple(pair for pair in pairs if pair[0])
        return Answers(int(entry["count"]), int(entry["floor"]), recent)

    def record(self, training: str, answers: Answers) -> None:
        """Keep `answers`; like all states it is on the disk once the next checkpoint is."""
        del training
        block = np.zeros(1, _ANSWERED)
        block["count"], block["floor"] = answers.count, answers.floor
        for place, (server_round, digest) in enumerate(answers.recent):
            block["rounds"][0, place], block["digests"][0, place] = server_round, digest
        _write(self._states.answered, self._number * _ANSWERED.itemsize, [block])

    def _received(self, record: NDArray[Any], version: Version) -> bool:
        """Add what a version that is there received: nothing else of it has changed."""
        stamp = (version.round, version.attempt)
        for slot in range(SLOTS):
            if (record[slot]["round"], record[slot]["attempt"]) == stamp:
                groups = _groups(version)
                new = {name: arrays for name, arrays in groups.items() if _is_received(name)}
                self._states.put_arrays(self._place(slot), stamp, new)
                record[slot]["blocks"] = len(groups)
                self._states.put_record(self._number, record)
                return True
        return False

    def _write(self, record: NDArray[Any], slot: int, version: Version) -> None:
        entry = record[slot]
        groups = _groups(version)
        if groups:
            # The round makes a slot valid, so it goes before its arrays change.
            entry["round"] = 0
            self._states.put_record(self._number, record)
            stamp = (version.round, version.attempt)
            self._states.put_arrays(self._place(slot), stamp, groups)
        entry["blocks"] = len(groups)
        for name in ("intervals", "elapsed", "weight"):
            entry[name] = getattr(version.state, name)
        entry["attempt"] = version.attempt
        entry["round"] = version.round
        self._states.put_record(self._number, record)


def _groups(version: Version) -> dict[str, Arrays]:
    """Return what a version remembers, sent and received by one name each."""
    kept = version.arrays()
    return {f"{kind}/{name}": arrays for kind in kept for name, arrays in kept[kind].items()}


def _is_received(name: str) -> bool:
    return name.startswith("received/")


def _kept(groups: Mapping[str, Arrays]) -> Kept:
    """Return what `_groups` took apart."""
    kept: Kept = {}
    for name, arrays in groups.items():
        kind, _, rest = name.partition("/")
        kept.setdefault(kind, {})[rest] = arrays
    return kept


def flush(directory: Path) -> None:
    """Make durable what the workers have written into `directory`, new files included."""
    if not directory.is_dir():
        return
    for path in (directory, *directory.glob("*.bin"), *directory.glob("*.json")):
        file = os.open(path, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)


def _read(path: Path, start: int, dtype: np.dtype[Any], count: int) -> NDArray[Any]:
    """Return the `count` items that begin at a byte; zeros where nothing has been written."""
    items = np.empty(count, dtype)
    data, done = items.view(np.uint8).data, 0
    with suppress(FileNotFoundError), path.open("rb", buffering=0) as file:
        while done < len(data) and (read := os.preadv(file.fileno(), [data[done:]], start + done)):
            done += read
    items.view(np.uint8)[done:] = 0
    return items


def _write(path: Path, start: int, arrays: Sequence[NDArray[Any]]) -> None:
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
