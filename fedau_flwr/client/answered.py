"""Which rounds of a training a client has answered, over all of its attempts and restarts.

A server that is resumed takes its clients' histories back with it, but not what has left them: a
round that was answered stays answered, counted or not. A client that keeps rounds apart, or answers
a masked round once, looks here before it trains and records the answer before its reply leaves.
"""

import json
from dataclasses import dataclass
from hashlib import sha256
from typing import Self

from ..arrays import Arrays
from ..weight_state import StateError, check_integer

VERSION = 1
RECENT = 32
"""How many answers are told apart; of older ones the number and the latest round are known."""


@dataclass(frozen=True, slots=True)
class Answers:
    """What a client has answered: a record of fixed size, which only ever grows.

    Where older rounds are not told apart any more, it errs on the side of having answered: all
    rounds up to `floor` count as answered, whatever for.

    Parameters
    ----------
    count : int
        How many answers there were.
    floor : int
        The latest of the rounds that are not in `recent` any more; 0 if there is none.
    recent : tuple[tuple[int, int], ...]
        The round of an answer and what it was for, as 64 bits (`model_digest`), by round.
    """

    count: int = 0
    floor: int = 0
    recent: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        check_integer("floor", self.floor, 0)
        for server_round, digest in self.recent:
            check_integer("round", server_round, 1)
            check_integer("digest", digest, 0)
        if list(self.recent) != sorted(set(self.recent)) or len(self.recent) > RECENT:
            raise StateError("recent", self.recent, f"at most {RECENT} answers in rising order")
        check_integer("count", self.count, len(self.recent) + (self.floor > 0))

    @property
    def last(self) -> int:
        """The latest round that was answered, 0 if none was."""
        return self.recent[-1][0] if self.recent else self.floor

    def near(self, server_round: int, separation: int) -> bool:
        """Return whether a round less than `separation` rounds away was answered."""
        if self.floor and server_round < self.floor + separation:
            return True
        return any(abs(server_round - one) < separation for one, _ in self.recent)

    def has(self, server_round: int, digest: int) -> bool:
        """Return whether a round was answered for this very thing, or may have been."""
        return server_round <= self.floor or (server_round, digest) in self.recent

    def added(self, server_round: int, digest: int) -> Self:
        """Return this with one more answer; one that is there already is not counted twice."""
        if (server_round, digest) in self.recent:
            return self
        recent = sorted([*self.recent, (server_round, digest)])
        dropped = recent[:-RECENT]
        floor = max([self.floor, *(one for one, _ in dropped)])
        return type(self)(self.count + 1, floor, tuple(recent[-RECENT:]))

    def to_json(self, training: str) -> str:
        """Return this as a text."""
        recent = [[server_round, f"{digest:016x}"] for server_round, digest in self.recent]
        fields = {"count": self.count, "floor": self.floor, "recent": recent}
        return json.dumps({"version": VERSION, "training": training, **fields})

    @classmethod
    def from_json(cls, text: str, training: str) -> Self:
        """Read what `to_json` wrote; raises `StateError` if it is anything else."""
        try:
            content = json.loads(text)
            version, of = content["version"], content["training"]
            recent = tuple((one, int(digest, 16)) for one, digest in content["recent"])
            found = cls(content["count"], content["floor"], recent)
        except (ValueError, TypeError, KeyError) as error:
            if isinstance(error, StateError):
                raise
            raise StateError("record of answers", text[:40], "what a client wrote") from None
        if (version, of) != (VERSION, training):
            rule = f"version {VERSION} of training {training}"
            raise StateError("record of answers", f"version {version} of training {of}", rule)
        return found


def model_digest(model: Arrays) -> int:
    """Return 64 bits that tell models apart: names, types, shapes and values."""
    digest = sha256()
    for name, value in model.items():
        digest.update(f"{name!r} {value.dtype.str} {value.shape} ".encode())
        digest.update(value.tobytes())
    return int.from_bytes(digest.digest()[:8])
