"""What a client remembers from one message of a round to the next, as bytes.

In a deployment every message may meet a fresh process. The state lives in Flower's
`Context.state`, which stays with the client; it holds secrets, hence no `repr`.
"""

import json
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self

from .cohort import Terms
from .message import RoundId


class Stage(StrEnum):
    """How far a client is in its round."""

    IDLE = "not begun"
    OFFERED = "keys offered"
    DEALT = "shares dealt"
    READY = "ready to mask"
    MASKED = "masked"
    AGREED = "survivors signed"
    OVER = "over"


@dataclass(kw_only=True, repr=False)
class ClientState:
    """The secrets of the current round, and which round that is.

    Clients are named by their places in the cohort. `seed_shares` are the client's share of its
    own seed and then those of `held`, `key_shares` those of `held`, `pair_keys` the keys of the
    masks that it has in common with `partners`.
    """

    terms: Terms | None = None
    stage: Stage = Stage.IDLE
    share_private: bytes = b""
    mask_private: bytes = b""
    seed: bytes = b""
    transcript: bytes = b""
    cohort: int = 0
    me: int = 0
    threshold: int = 0
    names: str = ""
    public_keys: bytes = b""
    drawn: list[int] = field(default_factory=list)
    dealers: bytes = b""
    held: list[int] = field(default_factory=list)
    spoiled: list[int] = field(default_factory=list)
    seed_shares: bytes = b""
    key_shares: bytes = b""
    partners: list[int] = field(default_factory=list)
    pair_keys: bytes = b""
    survivors: bytes = b""

    def to_bytes(self) -> bytes:
        """Serialise."""
        record = {key: value for key, value in vars(self).items() if value and key != "terms"}
        if self.terms is not None:
            hashes = [self.terms.model, self.terms.config, self.terms.roster]
            record |= {**vars(self.terms.round_id), "hashes": b"".join(hashes)}
        return json.dumps({key: _to_json(value) for key, value in record.items()}).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read what `to_bytes` wrote."""
        record = {key: _from_json(*typed) for key, typed in json.loads(data).items()}
        terms = None
        if "run" in record:
            round_id = RoundId(*(record.pop(key) for key in ("run", "attempt", "round")))
            hashes = record.pop("hashes")
            terms = Terms(round_id, hashes[:32], hashes[32:64], hashes[64:])
        return cls(terms=terms, **record | {"stage": Stage(record["stage"])})


def _to_json(value: Any) -> tuple[str, Any]:
    return ("bytes", value.hex()) if isinstance(value, bytes) else ("plain", value)


def _from_json(kind: str, value: Any) -> Any:
    return bytes.fromhex(value) if kind == "bytes" else value
