"""Where a client keeps its participation state between rounds.

State is kept by round, because a server that is resumed from a checkpoint takes its clients
back with it: a `Version` is what a client knew when it last sent something for a round.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context
from numpy.typing import NDArray

from ..weight_state import VERSION, StateError, WeightState

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Version:
    """A client's state when it sent its contribution for `round`.

    Parameters
    ----------
    round : int
        The pending round: the client sent something for it and does not know yet whether
        it was counted.
    attempt : int
        The attempt of the training that asked for it.
    client : int
        The name under which the server asked for it.
    state : WeightState
        The history up to, not including, `round`.
    memory : Arrays | None
        The client's `y` before `round` (MIFA, FedVARP).
    sent : Arrays | None
        The vector that was sent for `round`, which enters `memory` once it is counted.
    """

    round: int
    attempt: int
    client: int
    state: WeightState
    memory: Arrays | None = None
    sent: Arrays | None = None

    def __post_init__(self) -> None:
        for name in ("round", "attempt"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise StateError(name, value, "an integer >= 1")
        if not isinstance(self.client, int):
            raise StateError("client", self.client, "an integer")
        if self.state.round != self.round - 1:
            raise StateError("state.round", self.state.round, f"{self.round - 1}")
        if (self.memory is None) != (self.sent is None):
            raise StateError("memory", None, "stored together with the vector that was sent")

    def arrays(self) -> dict[str, Arrays]:
        """Return the vectors of this version by their field, if it has any."""
        if self.memory is None or self.sent is None:
            return {}
        return {"memory": self.memory, "sent": self.sent}


class Store(ABC):
    """Keeps the versions of one client."""

    @contextmanager
    def locked(self, training: str) -> Iterator[None]:
        """Hold the client's state of `training` against other processes."""
        del training
        yield

    @abstractmethod
    def load(self, training: str) -> list[Version]:
        """Return the versions, oldest first; none if the client has no state of `training`."""

    @abstractmethod
    def save(self, training: str, versions: Sequence[Version]) -> None:
        """Replace all versions at once."""


def versions_to_json(training: str, versions: Sequence[Version]) -> str:
    """Return everything but the arrays of `versions` as JSON."""
    return json.dumps(
        {
            "version": VERSION,
            "training": training,
            "versions": [
                {
                    "round": version.round,
                    "attempt": version.attempt,
                    "client": version.client,
                    "state": version.state.to_dict(),
                    "memory": version.memory is not None,
                }
                for version in versions
            ],
        },
        indent=1,
    )


def versions_from_json(
    text: str, training: str, arrays: Callable[[int, int], Mapping[str, Arrays]]
) -> list[Version]:
    """Read what `versions_to_json` wrote; `arrays` fetches a version's by round and attempt."""
    try:
        content = json.loads(text)
    except ValueError:
        raise StateError("content", text[:40], "JSON") from None
    if not isinstance(content, dict) or content.get("version") != VERSION:
        found = content.get("version") if isinstance(content, dict) else content
        raise StateError("version", found, str(VERSION))
    if content.get("training") != training:
        raise StateError("training", content.get("training"), repr(training))
    entries = content.get("versions")
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise StateError("versions", entries, "a list of objects")
    versions = []
    for entry in entries:
        state = WeightState.from_dict(entry.get("state"))
        version = Version(entry.get("round"), entry.get("attempt"), entry.get("client"), state)
        if entry.get("memory"):
            kept = arrays(version.round, version.attempt)
            version = replace(version, memory=kept["memory"], sent=kept["sent"])
        versions.append(version)
    return versions


class ContextStore(Store):
    """Keeps versions in Flower's `Context.state`, as long as that lives.

    In simulation Flower drops what a failing client wrote there, in deployment it keeps it;
    `save` therefore assigns both records in one go, when everything else has succeeded.
    """

    RECORD = "fedau"
    ARRAYS = "fedau.arrays"

    def __init__(self, context: Context) -> None:
        self._context = context

    def load(self, training: str) -> list[Version]:
        """Return the versions of `training`; those of another one are as good as none."""
        record = self._context.state.config_records.get(self.RECORD)
        if record is None or record.get("training") != training:
            return []
        return versions_from_json(str(record["versions"]), training, self._arrays)

    def _arrays(self, server_round: int, attempt: int) -> dict[str, Arrays]:
        del attempt
        arrays: dict[str, Arrays] = {"memory": {}, "sent": {}}
        for key, array in self._context.state.array_records[self.ARRAYS].items():
            number, kind, name = key.split("/", 2)
            if int(number) == server_round:
                arrays[kind][name] = array.numpy()
        return arrays

    def save(self, training: str, versions: Sequence[Version]) -> None:
        """Replace all versions at once."""
        arrays = {
            f"{version.round}/{kind}/{name}": Array(np.asarray(value))
            for version in versions
            for kind, values in version.arrays().items()
            for name, value in values.items()
        }
        self._context.state[self.RECORD] = ConfigRecord(
            {"training": training, "versions": versions_to_json(training, versions)}
        )
        self._context.state[self.ARRAYS] = ArrayRecord(arrays)
