"""Messages of the four exchanges: flat records of integers, strings, bytes, and lists of them.

Every message names its exchange and its round. Whoever reads one checks both first, so that a
message of another round or out of order is refused before anything in it is looked at.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

Value = int | str | bytes | list[int] | list[bytes]
Message = dict[str, Value]
Fields = Mapping[str, object]
"""A message as it came, of which nothing is known yet."""

KEY_BYTES = 32
MAX_IDS = 1000
"""No neighbourhood is larger: sharing a secret takes time with the square of its holders."""


class RefusalError(ValueError):
    """One message is refused; the text is the reason, holds no secret and is fit for a log."""


class VoidRoundError(RuntimeError):
    """Too few clients are left to remove the masks: the round yields no sum at all."""


def require(condition: bool, reason: str) -> None:
    """Refuse a message for `reason` unless `condition` holds."""
    if not condition:
        raise RefusalError(reason)


class Exchange(StrEnum):
    """The four exchanges, in order."""

    KEYS = "keys"
    SHARES = "shares"
    MASKED = "masked"
    UNMASK = "unmask"


@dataclass(frozen=True)
class RoundId:
    """One round of one attempt of one training."""

    run: str
    attempt: int
    round: int

    def begin(self, exchange: Exchange) -> Message:
        """Return the head that every message of `exchange` has in this round."""
        return {"exchange": exchange.value, **vars(self)}

    def binding(self, *parties: int) -> bytes:
        """Encode the round and `parties` without ambiguity, to bind keys and ciphertexts."""
        return json.dumps([self.run, self.attempt, self.round, *parties]).encode()

    def follows(self, earlier: "RoundId | None") -> bool:
        """Say whether a client that began `earlier` may begin this round."""
        if earlier is None or earlier.run != self.run:
            return True
        return (self.attempt, self.round) > (earlier.attempt, earlier.round)

    @classmethod
    def of(cls, message: Fields, exchange: Exchange) -> Self:
        """Read the round of a message that has to belong to `exchange`."""
        kind = message.get("exchange")
        if kind != exchange.value:
            known = kind if kind in list(Exchange) else "unknown"
            raise RefusalError(f"a message of the exchange '{exchange}' was due, not '{known}'")
        run, attempt, number = (message.get(key) for key in ("run", "attempt", "round"))
        if not isinstance(run, str) or type(attempt) is not int or type(number) is not int:
            raise RefusalError("the message does not say which round it belongs to")
        require(
            run.isidentifier() and attempt >= 1 and number >= 1,
            "the message's run must be a name of letters and digits, its attempt and round "
            "numbers from 1 on",
        )
        return cls(run, attempt, number)

    def check(self, message: Fields, exchange: Exchange) -> None:
        """Refuse `message` unless it belongs to this round and to `exchange`."""
        other = self.of(message, exchange)
        require(
            other == self,
            f"the message belongs to round {other.round} (attempt {other.attempt}), "
            f"not to round {self.round} (attempt {self.attempt})",
        )


def read_int(message: Fields, key: str) -> int:
    """Read an integer."""
    value = message.get(key)
    if type(value) is not int:
        raise RefusalError(f"'{key}' is missing or no integer")
    return value


def read_bytes(message: Fields, key: str, size: int) -> bytes:
    """Read a byte string of exactly `size` bytes."""
    value = message.get(key)
    if not isinstance(value, bytes) or len(value) != size:
        raise RefusalError(f"'{key}' is missing or not {size} bytes long")
    return value


def read_ids(message: Fields, key: str) -> list[int]:
    """Read a list of distinct client ids."""
    value = message.get(key)
    if not isinstance(value, list) or any(type(item) is not int for item in value):
        raise RefusalError(f"'{key}' is missing or no list of client ids")
    too_many = f"'{key}' names {len(value)} clients, and {MAX_IDS} are the most"
    require(len(value) <= MAX_IDS, too_many)
    require(len(set(value)) == len(value), f"'{key}' names a client twice")
    return value


def read_blobs(message: Fields, key: str, size: int, count: int) -> list[bytes]:
    """Read a list of exactly `count` byte strings of `size` bytes each."""
    value = message.get(key)
    if not isinstance(value, list) or len(value) != count:
        raise RefusalError(f"'{key}' is missing or does not hold {count} entries")
    if any(not isinstance(item, bytes) or len(item) != size for item in value):
        raise RefusalError(f"'{key}' holds an entry that is not {size} bytes long")
    return value
