"""Arrays that the processes of a simulation on one machine hand to each other in files.

Flower's engine pickles a message for every node, copies it into Ray's store, and copies it out
again, in both directions. Here a model is written once per round, however many nodes are asked, and
a message says where; a node's reply goes the same way. The files lie in a directory that the
simulator names to all processes of its SuperLink and removes in the end. Nodes that were given no
such directory, those of a deployment or of a cluster, neither read nor write anything.

Files are mapped once and written again and again. What a message brings to a node is not copied: it
is there until the server sends the next model, and who is late by then is not counted.
"""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any
from uuid import uuid4

from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict

DIRECTORY = "FEDAU_SHARED_ARRAYS"
"""The environment variable with the directory of the files."""
RECORD = "fedau.shared"
"""The record that says which file holds the arrays of which record, and under which stamp."""
_LEAST = 1 << 16
"""Bytes of arrays that are worth a file."""
_LINE = 64
_MOST = 256
"""Files that are mapped at a time, of a process that may have tens of thousands."""


def on_one_machine() -> bool:
    """Return whether the simulator has all of its processes on this machine."""
    return DIRECTORY in os.environ


class SharedArrays:
    """The files in `directory`, of which each belongs to one sender at a time."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._mapped: dict[tuple[str, int], mmap.mmap] = {}
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)

    @classmethod
    def of_this_process(cls) -> SharedArrays | None:
        """Return those of the simulator that started this process, if it has any."""
        directory = os.environ.get(DIRECTORY)
        return _shared_in(directory) if directory else None

    def outgoing(self, messages: list[Message]) -> list[Message]:
        """Return messages without their arrays, each record of which is written once."""
        stamp, contents = uuid4().hex, dict[int, RecordDict]()
        places: dict[int, str] = {}
        for message in messages:
            content = message.content
            if id(content) not in contents:
                contents[id(content)] = self.without_arrays(content, "model", stamp, places)
        return [_with_content(message, contents[id(message.content)]) for message in messages]

    def without_arrays(
        self, content: RecordDict, sender: str, stamp: str, places: dict[int, str] | None = None
    ) -> RecordDict:
        """Return content whose arrays are in files of `sender`; `places` are written already."""
        places = {} if places is None else places
        records = content.array_records
        if sum(len(a.data) for record in records.values() for a in record.values()) < _LEAST:
            return content
        for record in records.values():
            if id(record) not in places:
                places[id(record)] = self._write(f"{sender}-{len(places)}", stamp, record)
        where = {name: places[id(record)] for name, record in records.items()}
        others = {name: value for name, value in content.items() if name not in records}
        order = json.dumps(list(content))
        return RecordDict({**others, RECORD: ConfigRecord({"": order, "stamp": stamp, **where})})

    def with_arrays(self, content: RecordDict, *, lasting: bool = True) -> RecordDict:
        """Return content with its arrays, as it was before `without_arrays`.

        Those that need not last are there until their file is written again.
        """
        config = content.config_records[RECORD]
        return RecordDict(
            {
                name: self._read(str(config[name]), str(config["stamp"]), lasting=lasting)
                if name in config
                else content[name]
                for name in json.loads(str(config[""]))
            }
        )

    def _write(self, name: str, stamp: str, record: ArrayRecord) -> str:
        """Write the arrays of a record to a file and return what finds them again."""
        starts, end = _laid_out(stamp, [len(array.data) for array in record.values()])
        file = self._map(name, end, mmap.ACCESS_WRITE)
        file[: len(stamp)] = stamp.encode()
        for start, array in zip(starts, record.values(), strict=True):
            file[start : start + len(array.data)] = array.data
        arrays = [(k, a.dtype, a.shape, a.stype, len(a.data)) for k, a in record.items()]
        return json.dumps([name, arrays])

    def _read(self, place: str, stamp: str, *, lasting: bool) -> ArrayRecord:
        name, arrays = json.loads(place)
        starts, end = _laid_out(stamp, [size for *_, size in arrays])
        view = memoryview(self._map(name, end, mmap.ACCESS_READ))
        if view[: len(stamp)] != stamp.encode():
            raise RuntimeError(f"{name} holds the arrays of another message by now.")
        record = ArrayRecord()
        for start, (key, dtype, shape, stype, size) in zip(starts, arrays, strict=True):
            piece: Any = view[start : start + size]
            record[key] = Array(dtype=dtype, shape=tuple(shape), stype=stype, data=b"")
            record[key].data = bytes(piece) if lasting else piece
        return record

    def _map(self, name: str, size: int, access: int) -> mmap.mmap:
        """Return a file that has at least this size, as it is in memory."""
        known = self._mapped.get((name, access))
        if known is not None and len(known) >= size:
            return known
        flags = os.O_RDONLY if access == mmap.ACCESS_READ else os.O_RDWR | os.O_CREAT
        file = os.open(self._directory / name, flags, 0o600)
        try:
            if access == mmap.ACCESS_WRITE:
                _reserve(file, size)
            while len(self._mapped) >= _MOST:
                self._mapped.pop(next(iter(self._mapped)))
            self._mapped[name, access] = mmap.mmap(file, 0, access=access)
        finally:
            os.close(file)
        return self._mapped[name, access]


def _laid_out(stamp: str, sizes: list[int]) -> tuple[list[int], int]:
    """Return where arrays begin after a stamp, on cache lines, and where the last one ends."""
    starts, at = [], len(stamp)
    for size in sizes:
        starts.append(-(-at // _LINE) * _LINE)
        at = starts[-1] + size
    return starts, at


def _reserve(file: int, size: int) -> None:
    """Make a file at least so large: a disk that is full is an error now, and a crash later."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, size)
    elif os.fstat(file).st_size < size:
        os.truncate(file, size)


@lru_cache(maxsize=1)
def _shared_in(directory: str) -> SharedArrays:
    return SharedArrays(Path(directory))


def _with_content(message: Message, content: RecordDict) -> Message:
    head = message.metadata
    return Message(
        content, head.dst_node_id, head.message_type, ttl=head.ttl, group_id=head.group_id
    )


def shared_arrays(
    message: Message, context: Context, call_next: Callable[[Message, Context], Message]
) -> Message:
    """Give a node's app its arrays, and take those of its reply, where files are shared."""
    files = SharedArrays.of_this_process()
    if files is None or RECORD not in message.content:
        return call_next(message, context)
    stamp = str(message.content.config_records[RECORD]["stamp"])
    message.content = files.with_arrays(message.content, lasting=False)
    reply = call_next(message, context)
    if reply.has_content():
        reply.content = files.without_arrays(reply.content, f"node-{context.node_id}", stamp)
    return reply
