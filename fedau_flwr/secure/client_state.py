"""What a client remembers from one message of a round to the next, as bytes.

In a deployment every message may meet a fresh process. The state lives in Flower's
`Context.state`, which stays with the client; it holds secrets, hence no `repr`.
"""

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Self

from .message import RoundId, Value, dump, load


class Stage(StrEnum):
    """How far a client is in its round."""

    IDLE = "not begun"
    OFFERED = "keys offered"
    DEALT = "shares dealt"
    READY = "ready to mask"
    MASKED = "masked"
    OVER = "over"


@dataclass(kw_only=True, repr=False)
class ClientState:
    """The secrets of the current round, and which round that is.

    `seed_shares` holds the client's share of its own seed first and then those of `active`,
    `key_shares` those of `active`.
    """

    round_id: RoundId | None = None
    stage: Stage = Stage.IDLE
    threshold: int = 0
    share_private: bytes = b""
    mask_private: bytes = b""
    seed: bytes = b""
    peers: list[int] = field(default_factory=list)
    share_keys: list[bytes] = field(default_factory=list)
    mask_keys: list[bytes] = field(default_factory=list)
    active: list[int] = field(default_factory=list)
    spoiled: list[int] = field(default_factory=list)
    seed_shares: list[bytes] = field(default_factory=list)
    key_shares: list[bytes] = field(default_factory=list)

    def evolve(self, **changes: Any) -> Self:
        """Return a copy with `changes`."""
        return replace(self, **changes)

    def to_bytes(self) -> bytes:
        """Serialise."""
        record: dict[str, Value] = {
            key: value for key, value in vars(self).items() if key != "round_id"
        }
        if self.round_id is not None:
            record |= vars(self.round_id)
        return dump(record)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read what `to_bytes` wrote."""
        record: dict[str, Any] = dict(load(data))
        round_id = None
        if "run" in record:
            round_id = RoundId(*(record.pop(key) for key in ("run", "attempt", "round")))
        record["stage"] = Stage(record["stage"])
        return cls(round_id=round_id, **record)
