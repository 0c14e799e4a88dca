"""The participation states of all clients of a simulation, in files that every worker reaches.

A host serves other clients in every round, so states live where all workers reach them: in the
run's directory, which several machines have to share. A client has a record of fixed size with two
slots. Two are enough: a simulation only ever resumes from its last checkpoint, so of the versions
that a `Participant` keeps, the newest one before the checkpoint and the last are all that can be
asked for again. ``answered.bin`` has the rounds that a client has answered, where the run's rules
need them.

What a method lets clients remember is named arrays: each name has a sparse file of blocks of equal
size, and beside it the names, types and shapes of the arrays in a block. A slot says at which of
the client's places its memories are (`simulations.nodes.memories`). What a client received is in a
block per slot, and so is what it remembered and sent in runs that began before there were places.

`flush` makes everything durable, which the round loop calls before a checkpoint: what was
written before stays untouched until the next one, so a crash in between cannot hurt it. Until then
memories may be in shared memory alone, which is for runs that go on after their last checkpoint and
no later. No two workers ever serve the same client at a time, so there are no locks.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedau_flwr.arrays import Arrays
from fedau_flwr.client.answered import RECENT, Answers
from fedau_flwr.client.store import DELIVERED, Kept, Store, Version
from fedau_flwr.files import make_private_folder
from fedau_flwr.weight_state import WeightState
from simulations.nodes.blocks import Blocks, HeldFile, NamedBlocks, alone, read_at, write_at
from simulations.nodes.memories import PLACES, Memories
from simulations.nodes.shared_memory import forget_memory
from simulations.runs.shared_arrays import on_one_machine

SLOTS = 2
_SLOT = np.dtype(
    [
        ("round", np.int64),
        ("attempt", np.int64),
        ("intervals", np.int64),
        ("elapsed", np.int64),
        ("weight", np.float64),
        ("blocks", "<u2"),
        # Places count from 1; in runs from before there were any, all that follows is 0.
        ("memory", "u1"),
        ("next_memory", "u1"),
        ("memory_blocks", "<u2"),
        ("next_memory_blocks", "<u2"),
    ]
)
_FIELDS = _SLOT.names or ()
_MEMORIES = ("memory", "next_memory")
_ANSWERED = np.dtype(
    [
        ("count", np.int64),
        ("floor", np.int64),
        ("rounds", np.int64, RECENT),
        ("digests", np.uint64, RECENT),
    ]
)
RECORD_BYTES = SLOTS * _SLOT.itemsize
Later = Callable[[Callable[[], None]], None]
"""Takes what can be written later than at once."""
MARK = "of-a-simulation"
"""A file that says that a server on this machine has made the directory for its nodes."""


def make_states(directory: Path) -> str:
    """Make the directory of a simulation's states; nodes write into no other, whoever asks."""
    make_private_folder(directory)
    forget_memory(directory)
    (directory / MARK).touch(0o600)
    return str(directory)


class ClientStates:
    """The states of clients in `directory`, which is made if it is not there.

    What they remember is in shared memory where there is any, if it is said how many `clients`
    there are.
    """

    def __init__(self, directory: Path, clients: int = 0) -> None:
        make_private_folder(directory)
        path = directory / "states.bin"
        self._records = HeldFile(path) if on_one_machine() else path
        self.answered = directory / "answered.bin"
        self.of_slots = NamedBlocks(directory, "arrays")
        self.memories = NamedBlocks(directory, "memory", clients * PLACES)

    def client(self, number: int, safe: int = 0) -> Store:
        """Return the store of one client; the last checkpoint is of the round `safe`."""
        return _ClientStore(self, number, safe)

    @contextmanager
    def together(self, numbers: Iterable[int], safe: int = 0) -> Iterator[Mapping[int, Store]]:
        """Provide the stores of several clients, whose states are read at once and written at once.

        Between two clients' trainings the same would take five times as long: all that it needs
        has left the core's caches. Clients that remember something are written one by one.
        """
        late: list[Callable[[], None]] = []
        stores = {number: _ClientStore(self, number, safe, late.append) for number in numbers}
        for store in stores.values():
            store.read()
        yield stores
        for write in late:
            write()

    def record(self, number: int) -> NDArray[Any]:
        """Return a copy of the slots of a client."""
        return read_at(self._records, number * RECORD_BYTES, _SLOT, SLOTS)

    def put_record(self, number: int, record: NDArray[Any]) -> None:
        """Write the slots of a client."""
        write_at(self._records, number * RECORD_BYTES, [record])


def _at_once(write: Callable[[], None]) -> None:
    write()


class _ClientStore(Store):
    """One client's two slots."""

    looks_ahead = True

    def __init__(
        self, states: ClientStates, number: int, safe: int, later: Later = _at_once
    ) -> None:
        self._states = states
        self._number = number
        self._safe = safe
        self._later = later
        self._found: list[Version] | None = None
        self._record: NDArray[Any] | None = None
        self._memories = Memories(states.memories, number)

    def load(self, training: str) -> list[Version]:
        """Return the versions, oldest first; a directory holds the states of one training."""
        del training
        found, self._found = self._found, None
        return self._versions() if found is None else found

    def read(self) -> None:
        """Read what is to be loaded next."""
        self._found = self._versions()

    def _versions(self) -> list[Version]:
        record = self._record = self._states.record(self._number)
        slots = [*enumerate(dict(zip(_FIELDS, entry, strict=True)) for entry in record.tolist())]
        # A later attempt may have gone back: it, not the round, says which version is newer.
        slots.sort(key=lambda slot: (slot[1]["attempt"], slot[1]["round"]))
        return [self._version(slot, entry) for slot, entry in slots if entry["round"]]

    def _version(self, slot: int, entry: Mapping[str, Any]) -> Version:
        number, attempt, blocks = (entry[key] for key in ("round", "attempt", "blocks"))
        state = WeightState(number - 1, entry["intervals"], entry["elapsed"], entry["weight"])
        held: dict[str, Any] = {}
        if entry["next_memory"]:
            for key in _MEMORIES:
                # What is made of it where something was received takes its place.
                place, count = entry[key], entry[f"{key}_blocks"]
                held[key] = partial(self._memories.read, place, count, copied=bool(blocks))
        # In a simulation clients are counted by number, whoever hosts them.
        version = Version(number, attempt, self._number, state, **held)
        if blocks:
            place = self._number * SLOTS + slot
            kept = _kept(self._states.of_slots.read(place, blocks, (number, attempt)))
            if not held:
                return version.holding(kept)
            return replace(version, received=kept["received"][DELIVERED])
        return version

    def save(self, training: str, versions: Sequence[Version]) -> None:
        """Keep the last version, and the one before the checkpoint, which is not touched."""
        del training
        if any(version.memory is not None for version in versions):
            self._save(versions)
        else:
            self._later(partial(self._save, versions))

    def _save(self, versions: Sequence[Version]) -> None:
        # Nobody else has written it since.
        record = self._states.record(self._number) if self._record is None else self._record
        if versions[-1].received is not None and self._received(record, versions[-1]):
            return
        # Blocks that were written before are several times faster to write than new ones.
        resumable = len(versions) > 1 and versions[0].round <= self._safe
        kept = versions[0] if resumable else None
        held = [
            slot
            for slot in range(SLOTS)
            if kept is not None
            and (record[slot]["round"], record[slot]["attempt"]) == (kept.round, kept.attempt)
        ]
        for slot in range(SLOTS):
            if slot not in held:
                record[slot] = 0
        if kept is not None and not held:
            held = [0]
            self._write(record, 0, kept)
        free = next(slot for slot in range(SLOTS) if slot not in held)
        self._write(record, free, versions[-1])

    def answers(self, training: str) -> Answers:
        """Return which rounds the client has answered."""
        del training
        (entry,) = read_at(self._states.answered, self._number * _ANSWERED.itemsize, _ANSWERED, 1)
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
        write_at(self._states.answered, self._number * _ANSWERED.itemsize, [block])

    def _received(self, record: NDArray[Any], version: Version) -> bool:
        """Add what a version that is there received: nothing else of it has changed."""
        stamp = (version.round, version.attempt)
        for slot in range(SLOTS):
            if (record[slot]["round"], record[slot]["attempt"]) == stamp:
                groups = _groups(version)
                new = {name: arrays for name, arrays in groups.items() if _is_received(name)}
                self._states.of_slots.write(self._number * SLOTS + slot, stamp, alone(new))
                record[slot]["blocks"] = len(groups)
                self._states.put_record(self._number, record)
                return True
        return False

    def _write(self, record: NDArray[Any], slot: int, version: Version) -> None:
        entry = record[slot]
        stamp = (version.round, version.attempt)
        groups = _groups(version)
        if groups or version.next_memory is not None:
            # The round makes a slot valid, so it goes before its arrays change.
            self._states.put_record(self._number, record)
        if groups:
            self._states.of_slots.write(self._number * SLOTS + slot, stamp, alone(groups))
        if version.next_memory is not None:
            taken = {*record["memory"].tolist(), *record["next_memory"].tolist()}
            memories = {key: getattr(version, key) for key in _MEMORIES}
            for key, (place, count) in self._memories.write(memories, taken, stamp).items():
                entry[key], entry[f"{key}_blocks"] = place, count
        entry["blocks"] = len(groups)
        for name in ("intervals", "elapsed", "weight"):
            entry[name] = getattr(version.state, name)
        entry["attempt"] = version.attempt
        entry["round"] = version.round
        self._later(partial(self._states.put_record, self._number, record))


def _groups(version: Version) -> dict[str, Arrays]:
    """Return what a version holds in blocks of its slot, by one name each."""
    if version.next_memory is None:
        kept = version.arrays()
    else:
        kept = {} if version.received is None else {"received": {DELIVERED: version.received}}
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
    for layout in directory.glob("*.json"):
        Blocks.of(layout).save()
    for path in (directory, *directory.glob("*.bin"), *directory.glob("*.json")):
        file = os.open(path, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)
