"""What a client remembers from one message of a round to the next, as bytes.

In a deployment every message may meet a fresh process. The state lives in Flower's
`Context.state`, which stays with the client; it holds secrets, hence no `repr`.
"""

import json
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self

from .message import RoundId


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

    def to_bytes(self) -> bytes:
        """Serialise."""
        record = vars(self) | (vars(self.round_id) if self.round_id else {})
        del record["round_id"]
        return json.dumps({key: _to_json(value) for key, value in record.items()}).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read what `to_bytes` wrote."""
        record = {key: _from_json(*typed) for key, typed in json.loads(data).items()}
        round_id = None
        if "run" in record:
            round_id = RoundId(*(record.pop(key) for key in ("run", "attempt", "round")))
        return cls(round_id=round_id, **record | {"stage": Stage(record["stage"])})


def _to_json(value: Any) -> tuple[str, Any]:
    if isinstance(value, bytes):
        return "bytes", value.hex()
    if isinstance(value, list) and value and isinstance(value[0], bytes):
        return "blobs", [item.hex() for item in value]
    return "plain", value


def _from_json(kind: str, value: Any) -> Any:
    if kind == "bytes":
        return bytes.fromhex(value)
    if kind == "blobs":
        return [bytes.fromhex(item) for item in value]
    if isinstance(value, int | str | list):
        return value
    raise ValueError("the stored state of a secure round is damaged")
