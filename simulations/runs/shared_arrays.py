"""Arrays that the processes of a simulation on one machine hand to each other in files.

Flower's engine pickles a message for every node, copies it into Ray's store, and copies it out
again, in both directions. Here a model is written once per round, however many nodes are asked, and
a message says where; a node's reply goes the same way. The files lie in a directory that the
simulator names to all processes of its SuperLink and removes in the end. Nodes that were given no
such directory, those of a deployment or of a cluster, neither read nor write anything.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from uuid import uuid4

from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict

DIRECTORY = "FEDAU_SHARED_ARRAYS"
"""The environment variable with the directory of the files."""
RECORD = "fedau.shared"
"""The record that says which file holds the arrays of which record, and under which stamp."""
_LEAST = 1 << 16
"""Bytes of arrays that are worth a file."""


class SharedArrays:
    """The files in `directory`, of which each belongs to one sender at a time."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._last: tuple[tuple[str, str], list[bytes]] = (("", ""), [])
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

    def with_arrays(self, content: RecordDict) -> RecordDict:
        """Return content with its arrays, as it was before `without_arrays`.

        What was read last is remembered: a worker is asked for many nodes with the same model.
        """
        config = content.config_records[RECORD]
        return RecordDict(
            {
                name: self._read(str(config[name]), str(config["stamp"]))
                if name in config
                else content[name]
                for name in json.loads(str(config[""]))
            }
        )

    def _write(self, name: str, stamp: str, record: ArrayRecord) -> str:
        """Write the arrays of a record to a file and return what finds them again."""
        file = os.open(self._directory / name, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            at = os.pwrite(file, stamp.encode(), 0)
            for array in record.values():
                data = memoryview(array.data)
                while data:
                    written = os.pwrite(file, data, at)
                    at, data = at + written, data[written:]
        finally:
            os.close(file)
        arrays = [(k, a.dtype, a.shape, a.stype, len(a.data)) for k, a in record.items()]
        return json.dumps([name, arrays])

    def _read(self, place: str, stamp: str) -> ArrayRecord:
        name, arrays = json.loads(place)
        found, pieces = self._last
        if found != (name, stamp):
            pieces = self._read_file(name, stamp, [size for *_, size in arrays])
            self._last = ((name, stamp), pieces)
        return ArrayRecord(
            {
                key: Array(dtype=dtype, shape=tuple(shape), stype=stype, data=data)
                for (key, dtype, shape, stype, _), data in zip(arrays, pieces, strict=True)
            }
        )

    def _read_file(self, name: str, stamp: str, sizes: list[int]) -> list[bytes]:
        """Return what a file holds of one message, in pieces of these sizes."""
        file = os.open(self._directory / name, os.O_RDONLY)
        try:
            at, pieces = len(stamp), []
            if os.pread(file, at, 0) != stamp.encode():
                raise RuntimeError(f"{name} holds the arrays of another message by now.")
            for size in sizes:
                pieces.append(os.pread(file, size, at))
                at += size
        finally:
            os.close(file)
        return pieces


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
    message.content = files.with_arrays(message.content)
    reply = call_next(message, context)
    if reply.has_content():
        reply.content = files.without_arrays(reply.content, f"node-{context.node_id}", stamp)
    return reply
