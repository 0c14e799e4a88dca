"""The server's recovery of seeds and keys from the shares that clients reveal.

Every share was committed to when it was dealt, so a wrong one is known as such, together with who
sent it, and the right ones suffice.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from hmac import compare_digest

from .crypto import Purpose, combine, commit, public_of
from .message import KEY_BYTES, Fields, RoundId, VoidRoundError, read_blobs, read_ids, require


@dataclass(frozen=True, kw_only=True)
class Dealing:
    """What one client dealt: sealed shares for its neighbours, and commitments by holder."""

    threshold: int
    holders: list[int]
    sealed: dict[int, bytes]
    seed_commitment: bytes
    commitments: dict[Purpose, list[bytes]]


class Recovery:
    """Collects revealed shares and combines them."""

    def __init__(self, round_id: RoundId, dealings: Mapping[int, Dealing]) -> None:
        self._round = round_id
        self._dealings = dealings
        self._shares: defaultdict[tuple[Purpose, int], dict[int, bytes]] = defaultdict(dict)

    def take(self, holder: int, reply: Fields, asked: Fields) -> None:
        """Take the shares of one holder, all or none."""
        revealed = []
        for clients, shares, purpose in (
            ("survivors", "seed-shares", Purpose.SEED_SHARE),
            ("dropped", "key-shares", Purpose.KEY_SHARE),
        ):
            dealers = read_ids(reply, clients)
            require(dealers == asked[clients], f"'{clients}' is not what was asked")
            blobs = read_blobs(reply, shares, KEY_BYTES, len(dealers))
            for dealer, share in zip(dealers, blobs, strict=True):
                place = self._dealings[dealer].holders.index(holder)
                dealt = self._dealings[dealer].commitments[purpose][place]
                found = commit(share, purpose, self._round.binding(dealer, holder))
                wrong = f"its share of client {dealer} is not the one that was dealt"
                require(compare_digest(dealt, found), wrong)
                revealed.append(((purpose, dealer), place + 1, share))
        for secret, position, share in revealed:
            self._shares[secret][position] = share

    def seed(self, dealer: int) -> bytes:
        """Recover the mask seed of a client whose vector is in the sum."""
        seed = self._combine(Purpose.SEED_SHARE, dealer)
        dealt = self._dealings[dealer].seed_commitment
        found = commit(seed, Purpose.SEED_COMMITMENT, self._round.binding(dealer))
        if not compare_digest(dealt, found):
            raise VoidRoundError(f"client {dealer} dealt shares that do not give its seed")
        return seed

    def mask_private(self, dealer: int, public: bytes) -> bytes:
        """Recover the mask key of a client that dropped out."""
        private = self._combine(Purpose.KEY_SHARE, dealer)
        if not compare_digest(public_of(private), public):
            raise VoidRoundError(f"client {dealer} dealt shares that do not give its key")
        return private

    def _combine(self, purpose: Purpose, dealer: int) -> bytes:
        shares = self._shares[purpose, dealer]
        needed = self._dealings[dealer].threshold
        if len(shares) < needed:
            raise VoidRoundError(
                f"{len(shares)} shares of client {dealer} are there, and {needed} are needed"
            )
        return combine(shares, needed)
