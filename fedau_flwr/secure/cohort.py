"""What all clients of a round must have in common: its terms, and who they are.

Every client states, with its fresh public keys, the round, the hash of the model, of the config
that matters and of its roster; with a roster it signs the statement. Whoever reads a list of
members checks each statement under its *own* terms: one told another story does not verify.
The hash of the terms and of the whole list, the transcript, goes into every key that is derived
afterwards. Members are in ascending order of their ids, and named by their place in it.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Self

from .message import (
    KEY_BYTES,
    MAX_COHORT,
    Fields,
    Message,
    RoundId,
    cut,
    read_blobs,
    read_bytes,
    read_text,
    require,
)

HASH_BYTES = 32
SIGNATURE_BYTES = 64
NO_ROSTER = bytes(HASH_BYTES)
_KEYS = b"fedau-flwr/secure/2/keys/"
_COHORT = b"fedau-flwr/secure/2/cohort/"
_SURVIVORS = b"fedau-flwr/secure/2/survivors/"
_ID_BYTES = 8
_ENTRY_BYTES = _ID_BYTES + 2 * KEY_BYTES


class Member(NamedTuple):
    """One client, and its keys for the round."""

    client: int
    share_key: bytes
    mask_key: bytes
    name: str = ""
    signature: bytes = b""


@dataclass(frozen=True)
class Terms:
    """What a client takes part in: the round, and the hashes of model, config and roster."""

    round_id: RoundId
    model: bytes
    config: bytes
    roster: bytes = NO_ROSTER

    @classmethod
    def of(cls, request: Fields, round_id: RoundId, roster: bytes) -> Self:
        """Read what the server announces, and add one's own roster."""
        model, config = (read_bytes(request, key, HASH_BYTES) for key in ("model", "config"))
        return cls(round_id, model, config, roster)

    def statement(self, member: Member) -> bytes:
        """Return what `member` signs: these terms, its id and name, and its keys."""
        keys = [member.client, member.name, member.share_key.hex(), member.mask_key.hex()]
        return _KEYS + json.dumps([*self._values(), *keys]).encode()

    def digest(self) -> bytes:
        """Return the hash of the terms."""
        return hashlib.sha256(json.dumps(self._values()).encode()).digest()

    def _values(self) -> list[str | int]:
        here = self.round_id
        hashes = (value.hex() for value in (self.model, self.config, self.roster))
        return [here.run, here.attempt, here.round, *hashes]


class Cohort:
    """The members of a round, in ascending order of their ids."""

    def __init__(self, members: Iterable[Member]) -> None:
        self.members = sorted(members)

    def __len__(self) -> int:
        return len(self.members)

    @cached_property
    def places(self) -> dict[int, int]:
        """The place of every client."""
        return {member.client: place for place, member in enumerate(self.members)}

    def to_fields(self) -> Message:
        """Return the list as it is sent to everybody."""
        return {
            "cohort": self._entries(),
            "names": "\n".join(member.name for member in self.members),
            "signatures": b"".join(member.signature for member in self.members),
        }

    @classmethod
    def of(cls, message: Fields, *, signed: bool) -> Self:
        """Read a list of members, all different in ids, names and keys."""
        value = message.get("cohort")
        count = len(value) // _ENTRY_BYTES if isinstance(value, bytes) else 0
        entries = read_blobs(message, "cohort", _ENTRY_BYTES, count)
        require(2 <= count <= MAX_COHORT, f"a cohort must have between 2 and {MAX_COHORT} clients")
        ids = [int.from_bytes(entry[:_ID_BYTES], "big") for entry in entries]
        require(ids == sorted(set(ids)), "'cohort' names a client twice or out of order")
        keys = [key for entry in entries for key in cut(entry[_ID_BYTES:], KEY_BYTES)]
        require(len(set(keys)) == 2 * count, "a public key appears twice")
        names, signatures = [""] * count, [b""] * count
        if signed:
            names = read_text(message, "names").split("\n")
            require(len(names) == len(set(names)) == count, "'names' must name each client once")
            signatures = read_blobs(message, "signatures", SIGNATURE_BYTES, count)
        return cls(map(Member, ids, keys[::2], keys[1::2], names, signatures))

    def transcript(self, terms: Terms) -> bytes:
        """Return the hash of the terms and of all members, which is bound into every key."""
        names = json.dumps([member.name for member in self.members]).encode()
        heads = terms.digest() + hashlib.sha256(names).digest()
        return hashlib.sha256(_COHORT + heads + self._entries()).digest()

    def _entries(self) -> bytes:
        return b"".join(
            member.client.to_bytes(_ID_BYTES, "big") + member.share_key + member.mask_key
            for member in self.members
        )


def bind(transcript: bytes, *places: int) -> bytes:
    """Return what binds a key or a ciphertext to a round, its terms and some of its members."""
    return transcript + b"".join(place.to_bytes(4, "big") for place in places)


def survivors_statement(transcript: bytes, survivors: bytes) -> bytes:
    """Return what a client signs in the consistency check: whose vectors are in the sum."""
    return _SURVIVORS + transcript + survivors


def quorum(cohort: int) -> int:
    """Return how many clients must sign the same survivors: more than two thirds of all.

    Two different sets would take signatures of more than a third of all clients under both.
    """
    return 2 * cohort // 3 + 1
