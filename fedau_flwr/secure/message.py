"""Messages of the exchanges: flat records of integers, strings and byte strings.

Every message names its exchange and its round. Whoever reads one checks both first, so that a
message of another round or out of order is refused before anything in it is looked at. Lists are
packed: clients as their places in the cohort (four bytes each, big-endian), sets of clients as one
bit per place (the first client is the lowest bit of the first byte), the rest as entries of a
fixed size one after the other.
"""

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

Value = int | str | bytes
Message = dict[str, Value]
Fields = Mapping[str, object]
"""A message as it came, of which nothing is known yet."""

KEY_BYTES = 32
PLACE_BYTES = 4
MAX_COHORT = 20_000
"""No cohort is larger: a message must not make its reader count for hours."""
MAX_NUMBER = 2**62
"""No attempt or round is later; records of answers hold numbers up to here."""


class RefusalError(ValueError):
    """One message is refused; the text is the reason, holds no secret and is fit for a log."""


class VoidRoundError(RuntimeError):
    """Too few clients are left to remove the masks: the round yields no sum at all."""


def require(condition: bool, reason: str) -> None:
    """Refuse a message for `reason` unless `condition` holds."""
    if not condition:
        raise RefusalError(reason)


class Exchange(StrEnum):
    """The exchanges, in order; there is a consistency check only with a roster."""

    KEYS = "keys"
    SHARES = "shares"
    MASKED = "masked"
    CONSISTENCY = "consistency"
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
            known = kind if isinstance(kind, str) and kind in list(Exchange) else "unknown"
            raise RefusalError(f"a message of the exchange '{exchange}' was due, not '{known}'")
        run, attempt, number = (message.get(key) for key in ("run", "attempt", "round"))
        if not isinstance(run, str) or type(attempt) is not int or type(number) is not int:
            raise RefusalError("the message does not say which round it belongs to")
        named = run.isidentifier() and len(run) <= 100
        require(named, "the message's run must be a name of at most 100 letters and digits")
        counted = 1 <= attempt < MAX_NUMBER and 1 <= number < MAX_NUMBER
        require(counted, "the message's attempt and round must be numbers from 1 on")
        return cls(run, attempt, number)

    def check(self, message: Fields, exchange: Exchange) -> None:
        """Refuse `message` unless it belongs to this round and to `exchange`."""
        other = self.of(message, exchange)
        there, here = (f"round {one.round} (attempt {one.attempt})" for one in (other, self))
        require(other == self, f"the message belongs to {there}, not to {here}")


def read_int(message: Fields, key: str) -> int:
    """Read an integer."""
    value = message.get(key)
    if type(value) is not int:
        raise RefusalError(f"'{key}' is missing or no integer")
    return value


def read_text(message: Fields, key: str) -> str:
    """Read a string."""
    value = message.get(key)
    if not isinstance(value, str):
        raise RefusalError(f"'{key}' is missing or no string")
    return value


def read_bytes(message: Fields, key: str, size: int) -> bytes:
    """Read a byte string of exactly `size` bytes."""
    value = message.get(key)
    if not isinstance(value, bytes) or len(value) != size:
        raise RefusalError(f"'{key}' is missing or not {size} bytes long")
    return value


def read_blobs(message: Fields, key: str, size: int, count: int) -> list[bytes]:
    """Read `count` byte strings of `size` bytes each."""
    value = message.get(key)
    if not isinstance(value, bytes) or len(value) != size * count:
        raise RefusalError(f"'{key}' is missing or does not hold {count} entries of {size} bytes")
    return cut(value, size)


def cut(value: bytes, size: int) -> list[bytes]:
    """Cut a byte string into entries of `size` bytes."""
    return [value[start : start + size] for start in range(0, len(value), size)]


def pack_places(places: Iterable[int]) -> bytes:
    """Write places in the cohort one after the other."""
    numbers = list(places)
    return struct.pack(f">{len(numbers)}I", *numbers)


def read_places(message: Fields, key: str, cohort: int) -> list[int]:
    """Read distinct places in a cohort of `cohort` clients."""
    value = message.get(key)
    if not isinstance(value, bytes) or len(value) % PLACE_BYTES:
        raise RefusalError(f"'{key}' is missing or no list of places")
    require(len(value) <= PLACE_BYTES * cohort, f"'{key}' names more clients than there are")
    places = list(struct.unpack(f">{len(value) // PLACE_BYTES}I", value))
    require(len(set(places)) == len(places), f"'{key}' names a client twice")
    require(all(place < cohort for place in places), f"'{key}' names a client that is not there")
    return places


def pack_set(places: Iterable[int], cohort: int) -> bytes:
    """Write a set of places in a cohort of `cohort` clients."""
    return sum(1 << place for place in places).to_bytes((cohort + 7) // 8, "little")


def read_set(message: Fields, key: str, cohort: int) -> set[int]:
    """Read a set of places in a cohort of `cohort` clients."""
    bits = int.from_bytes(read_bytes(message, key, (cohort + 7) // 8), "little")
    require(bits < 1 << cohort, f"'{key}' names a client that is not there")
    return {place for place, bit in enumerate(reversed(f"{bits:b}")) if bit == "1"}
