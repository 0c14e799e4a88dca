"""Where a client keeps its participation state between rounds.

State is kept by round, because a server that is resumed from a checkpoint takes its clients
back with it: a `Version` is what a client knew when it last sent something for a round.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context

from ..arrays import Arrays
from ..weight_state import StateError, WeightState, check_integer
from ..wire.parts import UPDATE, Parts
from ..wire.requests import Refusal
from .answered import Answers
from .transform import Memory, NextMemory

VERSION = 2
LAST = "last"
"""What version 1, which knew a single memory, is read as."""

Kept = dict[str, dict[str, Arrays]]
"""The arrays of a version: its memory, what it sent and what it received, each by name."""
DELIVERED = "delivered"
"""Name of the one group of arrays that a version received."""
Unread = Callable[[], Memory]
"""Reads a memory, which a store need not do before somebody asks for it."""


@dataclass(frozen=True, slots=True, eq=False)
class Version:
    """A client's state when it sent its contribution for `round`."""

    round: int  # the pending one: whether it was counted is not known yet
    attempt: int  # of the training, that asked for it
    client: int  # the name under which the server asked for it
    state: WeightState  # the history up to, not including, `round`
    memory: Memory | Unread | None = None  # before `round`; None under a method that has none
    sent: Parts | None = None  # from which the next memory is made once it is counted
    next_memory: Memory | Unread | NextMemory | None = None  # in place of `sent`: made of it
    received: Arrays | None = None  # what the server delivered after `round`
    weighting: str | None = None  # that made `state`; None if that is not known

    def __post_init__(self) -> None:
        check_integer("round", self.round, 1)
        check_integer("attempt", self.attempt, 1)
        if not isinstance(self.client, int):
            raise StateError("client", self.client, "an integer")
        if self.state.round != self.round - 1:
            raise StateError("state.round", self.state.round, f"{self.round - 1}")
        if (self.memory is None) != (self.sent is None and self.next_memory is None):
            raise StateError("memory", None, "stored together with what was sent")

    def arrays(self) -> Kept:
        """Return the arrays of this version by their field, if it has any."""
        if self.memory is None or self.sent is None:
            return {}
        received = {} if self.received is None else {"received": {DELIVERED: self.received}}
        return {"memory": recall(self.memory), "sent": self.sent, **received}

    def holding(self, kept: Kept) -> Self:
        """Return this version with what `arrays` returned."""
        received = kept.get("received", {}).get(DELIVERED)
        memory, sent = kept.get("memory", {}), kept.get("sent", {})
        return replace(self, memory=memory, sent=sent, received=received)


def recall(memory: Memory | Unread | NextMemory | None) -> Memory:
    """Return a memory, which is read by now; none is an empty one."""
    return memory() if callable(memory) else memory or {}


class Store(ABC):
    """Keeps the versions of one client."""

    durable = True
    """Whether what is kept outlasts the process."""

    looks_ahead = False
    """Whether versions get their `next_memory` at once, and nothing that was `sent`."""

    @contextmanager
    def locked(self, training: str) -> Iterator[None]:
        """Hold the client's state of `training` against other processes."""
        yield

    @abstractmethod
    def load(self, training: str) -> list[Version]:
        """Return the versions, oldest first; none if the client has no state of `training`."""

    @abstractmethod
    def save(self, training: str, versions: Sequence[Version]) -> None:
        """Replace all versions at once."""

    def answers(self, training: str) -> Answers:
        """Return which rounds of `training` the client has answered, over all attempts."""
        raise Refusal(
            f"{type(self).__name__} keeps no record of answered rounds: use a store that does."
        )

    def record(self, training: str, answers: Answers) -> None:
        """Keep `answers`, which has to be safe before a reply leaves."""
        self.answers(training)


def versions_to_json(training: str, versions: Sequence[Version]) -> str:
    """Return everything but the arrays of `versions` as JSON."""
    entries = [
        {
            "round": version.round,
            "attempt": version.attempt,
            "client": version.client,
            "state": version.state.to_dict(),
            "memory": version.memory is not None,
            "weighting": version.weighting,
        }
        for version in versions
    ]
    return json.dumps({"version": VERSION, "training": training, "versions": entries}, indent=1)


def versions_from_json(
    text: str, training: str, arrays: Callable[[int, int], Arrays]
) -> list[Version]:
    """Read what `versions_to_json` wrote; `arrays` fetches a version's by round and attempt."""
    try:
        content = json.loads(text)
    except ValueError:
        raise StateError("content", text[:40], "JSON") from None
    if not isinstance(content, dict) or content.get("version") not in (1, VERSION):
        found = content.get("version") if isinstance(content, dict) else content
        raise StateError("version", found, f"1 or {VERSION}")
    if content.get("training") != training:
        raise StateError("training", content.get("training"), repr(training))
    entries = content.get("versions")
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise StateError("versions", entries, "a list of objects")
    versions = []
    for entry in entries:
        state = WeightState.from_dict(entry.get("state"))
        version = Version(
            entry.get("round"),
            entry.get("attempt"),
            entry.get("client"),
            state,
            weighting=entry.get("weighting"),
        )
        if entry.get("memory"):
            kept = _nested(arrays(version.round, version.attempt), content["version"])
            version = version.holding(kept)
        versions.append(version)
    return versions


def flattened(kept: Kept) -> Arrays:
    """Return the arrays of a version by one name each, as they are stored."""
    return {
        f"{kind}/{group}/{name}": value
        for kind, groups in kept.items()
        for group, values in groups.items()
        for name, value in values.items()
    }


def _nested(stored: Arrays, version: int) -> Kept:
    """Undo `flattened`; version 1 had one memory and one part, which had no names."""
    kept: Kept = {"memory": {}, "sent": {}, "received": {}}
    for key, value in stored.items():
        kind, _, rest = key.partition("/")
        if version == 1:
            rest = f"{LAST if kind == 'memory' else UPDATE}/{rest}"
        group, _, name = rest.partition("/")
        if kind not in kept:
            raise StateError("array", key, "of the memory, or sent or received")
        kept[kind].setdefault(group, {})[name] = value
    return kept


class ContextStore(Store):
    """Keeps versions in Flower's `Context.state`, as long as that lives.

    In simulation Flower drops what a failing client wrote there, in deployment it keeps it;
    `save` therefore assigns both records in one go, when everything else has succeeded.
    """

    durable = False
    RECORD = "fedau"
    ARRAYS = "fedau.arrays"
    ANSWERED = "fedau.answered"

    def __init__(self, context: Context) -> None:
        self._context = context

    def load(self, training: str) -> list[Version]:
        """Return the versions of `training`; those of another one are as good as none."""
        record = self._context.state.config_records.get(self.RECORD)
        if record is None or record.get("training") != training:
            return []
        return versions_from_json(str(record["versions"]), training, self._arrays)

    def _arrays(self, server_round: int, attempt: int) -> Arrays:
        mine = f"{server_round}/"
        stored = self._context.state.array_records[self.ARRAYS].items()
        return {key.removeprefix(mine): a.numpy() for key, a in stored if key.startswith(mine)}

    def save(self, training: str, versions: Sequence[Version]) -> None:
        """Replace all versions at once."""
        arrays = {
            f"{version.round}/{name}": Array(np.asarray(value))
            for version in versions
            for name, value in flattened(version.arrays()).items()
        }
        self._context.state[self.RECORD] = ConfigRecord(
            {"training": training, "versions": versions_to_json(training, versions)}
        )
        self._context.state[self.ARRAYS] = ArrayRecord(arrays)

    def answers(self, training: str) -> Answers:
        """Return what was answered; a SuperNode that stops forgets it."""
        record = self._context.state.config_records.get(self.ANSWERED, ConfigRecord())
        text = record.get(training)
        return Answers() if text is None else Answers.from_json(str(text), training)

    def record(self, training: str, answers: Answers) -> None:
        """Keep `answers` in place of those of another training."""
        record = self._context.state.config_records.get(self.ANSWERED, ConfigRecord())
        # What follows a dot tells records of one training apart.
        name = training.partition(".")[0]
        same = {key: text for key, text in record.items() if key.partition(".")[0] == name}
        self._context.state[self.ANSWERED] = ConfigRecord(
            {**same, training: answers.to_json(training)}
        )
