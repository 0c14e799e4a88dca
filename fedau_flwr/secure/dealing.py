"""What one client deals to the others: shares of its seed and of its mask key.

The shares for one holder are sealed for it, and committed to in public. The holder checks both
when it gets them, the server when it is shown a share: whoever is at fault is known.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hmac import compare_digest
from typing import Self

from . import crypto, shamir
from .cohort import Cohort, bind
from .crypto import SEAL_BYTES, Agreement, Purpose
from .message import (
    KEY_BYTES,
    Fields,
    Message,
    RefusalError,
    cut,
    pack_places,
    read_blobs,
    read_bytes,
    read_places,
    require,
)

SHARES_BYTES = 2 * KEY_BYTES
SEALED_BYTES = SEAL_BYTES + SHARES_BYTES


@dataclass(frozen=True, kw_only=True)
class Dealing:
    """What one client dealt: to whom, sealed, and commitments by holder, its own the last."""

    holders: list[int]
    sealed: list[bytes]
    seed_commitment: bytes
    commitments: list[bytes]

    def to_fields(self) -> Message:
        """Return the fields of an answer."""
        return {
            "holders": pack_places(self.holders),
            "sealed": b"".join(self.sealed),
            "seed-commitment": self.seed_commitment,
            "commitments": b"".join(self.commitments),
        }

    @classmethod
    def of(cls, answer: Fields, dealer: int, cohort: int, degree: int) -> Self:
        """Read the answer of the client at place `dealer`."""
        holders = read_places(answer, "holders", cohort)
        require(len(holders) == degree, f"'holders' must name {degree} clients")
        require(dealer not in holders, "'holders' names the client itself")
        return cls(
            holders=holders,
            sealed=read_blobs(answer, "sealed", SEALED_BYTES, degree),
            seed_commitment=read_bytes(answer, "seed-commitment", KEY_BYTES),
            commitments=read_blobs(answer, "commitments", SHARES_BYTES, degree + 1),
        )


def deal(
    cohort: Cohort,
    transcript: bytes,
    *,
    me: int,
    holders: Sequence[int],
    threshold: int,
    share_private: bytes,
    secrets: tuple[bytes, bytes],
) -> tuple[Dealing, bytes]:
    """Share the seed and the mask key among `holders` and oneself.

    Returns what is sent, and one's own share of the seed.
    """
    count = len(holders) + 1
    pairs = list(zip(*(shamir.split(secret, threshold, count) for secret in secrets), strict=True))
    bindings = [bind(transcript, me, holder, n) for n, holder in enumerate([*holders, me])]
    agreement = Agreement(share_private)
    sealed = []
    for holder, binding, pair in zip(holders, bindings, pairs, strict=False):
        key = agreement.key(cohort.members[holder].share_key, Purpose.SHARE_SEALING, binding)
        sealed.append(crypto.seal(key, b"".join(pair), binding))
    seed_commitment = crypto.commit(secrets[0], Purpose.SEED_COMMITMENT, bind(transcript, me))
    dealing = Dealing(
        holders=list(holders),
        sealed=sealed,
        seed_commitment=seed_commitment,
        commitments=[commit_shares(pair, b) for pair, b in zip(pairs, bindings, strict=True)],
    )
    return dealing, pairs[-1][0]


def commit_shares(pair: Sequence[bytes], binding: bytes) -> bytes:
    """Commit to the shares of one holder: of the seed, and of the key."""
    purposes = zip(pair, (Purpose.SEED_SHARE, Purpose.KEY_SHARE), strict=True)
    return b"".join(crypto.commit(share, purpose, binding) for share, purpose in purposes)


def open_shares(key: bytes, sealed: bytes, binding: bytes, committed: bytes) -> list[bytes]:
    """Return both shares of one holder, nothing if they are not what was committed to."""
    try:
        pair = cut(crypto.unseal(key, sealed, binding), KEY_BYTES)
    except RefusalError:
        return []
    return pair if compare_digest(commit_shares(pair, binding), committed) else []


def pairwise_key(
    agreement: Agreement, transcript: bytes, public: bytes, one: int, other: int
) -> bytes:
    """Return the key of the mask that two clients have in common, from either one's private key."""
    pair = bind(transcript, min(one, other), max(one, other))
    return agreement.key(public, Purpose.PAIRWISE_MASK, pair)
