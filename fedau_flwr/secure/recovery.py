"""The server's recovery of seeds and keys from the shares that clients reveal.

Every share was committed to when it was dealt, so a wrong one is known as such, together with who
sent it, and the right ones suffice.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from hmac import compare_digest

from .errors import RefusalError, VoidRoundError
from .keys import Purpose, commit, public_of
from .message import KEY_BYTES, RoundId, read_blobs, read_ids
from .shamir import combine


@dataclass(frozen=True, kw_only=True)
class Dealing:
    """What one client dealt: sealed shares for its neighbours, and commitments by holder."""

    threshold: int
    holders: list[int]
    sealed: dict[int, bytes]
    seed_commitment: bytes
    seed_shares: list[bytes]
    key_shares: list[bytes]


class Recovery:
    """Collects revealed shares and combines them."""

    def __init__(self, round_id: RoundId, dealings: Mapping[int, Dealing]) -> None:
        self._round = round_id
        self._dealings = dealings
        self._seed_shares: dict[int, dict[int, bytes]] = {dealer: {} for dealer in dealings}
        self._key_shares: dict[int, dict[int, bytes]] = {dealer: {} for dealer in dealings}

    def take(self, holder: int, reply: Mapping[str, object], asked: Mapping[str, object]) -> None:
        """Take the shares of one holder, all or none."""
        revealed = []
        for clients, shares, purpose in (
            ("survivors", "seed-shares", Purpose.SEED_SHARE),
            ("dropped", "key-shares", Purpose.KEY_SHARE),
        ):
            dealers = read_ids(reply, clients)
            if dealers != asked[clients]:
                raise RefusalError(f"'{clients}' is not what was asked")
            for dealer, share in zip(
                dealers, read_blobs(reply, shares, KEY_BYTES, len(dealers)), strict=True
            ):
                self._check(dealer, holder, share, purpose)
                revealed.append((dealer, share, purpose))
        for dealer, share, purpose in revealed:
            position = self._dealings[dealer].holders.index(holder) + 1
            kind = self._seed_shares if purpose is Purpose.SEED_SHARE else self._key_shares
            kind[dealer][position] = share

    def seed(self, dealer: int) -> bytes:
        """Recover the mask seed of a client whose vector is in the sum."""
        seed = self._combine(dealer, self._seed_shares[dealer])
        dealt = self._dealings[dealer].seed_commitment
        found = commit(seed, Purpose.SEED_COMMITMENT, self._round.binding(dealer))
        if not compare_digest(dealt, found):
            raise VoidRoundError(f"client {dealer} dealt shares that do not give its seed")
        return seed

    def mask_private(self, dealer: int, public: bytes) -> bytes:
        """Recover the mask key of a client that dropped out."""
        private = self._combine(dealer, self._key_shares[dealer])
        if not compare_digest(public_of(private), public):
            raise VoidRoundError(f"client {dealer} dealt shares that do not give its key")
        return private

    def _combine(self, dealer: int, shares: Mapping[int, bytes]) -> bytes:
        needed = self._dealings[dealer].threshold
        if len(shares) < needed:
            raise VoidRoundError(
                f"{len(shares)} shares of client {dealer} are there, and {needed} are needed"
            )
        return combine(shares, needed)

    def _check(self, dealer: int, holder: int, share: bytes, purpose: Purpose) -> None:
        dealing = self._dealings[dealer]
        commitments = dealing.seed_shares if purpose is Purpose.SEED_SHARE else dealing.key_shares
        dealt = commitments[dealing.holders.index(holder)]
        found = commit(share, purpose, self._round.binding(dealer, holder))
        if not compare_digest(dealt, found):
            raise RefusalError(f"its share of client {dealer} is not the one that was dealt")
