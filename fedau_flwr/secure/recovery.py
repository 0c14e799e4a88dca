"""The server's recovery of seeds and keys from what clients reveal.

Every share was committed to when it was dealt, and its holder has checked it: a wrong one is its
holder's fault, and right ones that do not give the secret are their dealer's. Each is taken or
refused for itself.
"""

from collections import defaultdict
from collections.abc import Sequence
from hmac import compare_digest

from . import shamir
from .cohort import Member, bind
from .crypto import Agreement, Purpose, commit, derive, public_of
from .dealing import pairwise_key
from .holdings import Holdings
from .message import KEY_BYTES, Fields, VoidRoundError, read_blobs


class Recovery:
    """Collects what is revealed and combines it; `faults` says who is to blame for what."""

    def __init__(self, transcript: bytes, holdings: Holdings, members: Sequence[Member]) -> None:
        self._transcript = transcript
        self._holdings = holdings
        self._members = members
        self._exposed = holdings.exposed()
        self._shares: defaultdict[tuple[Purpose, int], dict[int, bytes]] = defaultdict(dict)
        self._pairs: dict[tuple[int, int], bytes] = {}
        self.faults: dict[int, str] = {}

    def take(self, holder: int, reply: Fields) -> None:
        """Take what one holder reveals: shares of seeds and keys, and keys of pairwise masks."""
        held, counted = self._holdings.held(holder), self._holdings.counted
        found = []
        for field, dealers, purpose in (
            ("seed-shares", sorted({holder, *(held & counted)}), Purpose.SEED_SHARE),
            ("key-shares", sorted(held - counted), Purpose.KEY_SHARE),
        ):
            blobs = read_blobs(reply, field, KEY_BYTES, len(dealers))
            found += [(purpose, *item) for item in zip(dealers, blobs, strict=True)]
        exposed = sorted(self._exposed & self._holdings.partners[holder])
        keys = read_blobs(reply, "pair-keys", KEY_BYTES, len(exposed))
        self._pairs |= {(holder, other): key for other, key in zip(exposed, keys, strict=True)}
        for purpose, dealer, share in found:
            self._take_share(purpose, dealer, holder, share)

    def masks_left(self) -> tuple[list[bytes], list[bytes]]:
        """Return the keys of the masks that have to be added to the sum, and subtracted."""
        holdings, plus = self._holdings, list[bytes]()
        minus = [
            derive(self._seed(place), Purpose.SELF_MASK, bind(self._transcript, place))
            for place in sorted(holdings.counted)
        ]
        for place in sorted(holdings.dealings.keys() - holdings.counted):
            peers = holdings.partners[place] & holdings.counted
            if place in self._exposed:
                keys = {peer: self._pair_key(peer, place) for peer in peers}
            else:
                keys = self._pair_keys(place, peers) if peers else {}
            for peer, key in keys.items():
                (minus if peer > place else plus).append(key)
        return plus, minus

    def _take_share(self, purpose: Purpose, dealer: int, holder: int, share: bytes) -> None:
        dealing = self._holdings.dealings[dealer]
        number = len(dealing.holders) if holder == dealer else dealing.holders.index(holder)
        dealt = dealing.commitments[number]
        half = dealt[:KEY_BYTES] if purpose is Purpose.SEED_SHARE else dealt[KEY_BYTES:]
        binding = bind(self._transcript, dealer, holder, number)
        if compare_digest(commit(share, purpose, binding), half):
            self._shares[purpose, dealer][number + 1] = share
        else:
            self.faults[holder] = "it revealed another share than the one that it was dealt"

    def _seed(self, dealer: int) -> bytes:
        """Recover the mask seed of a client whose vector is in the sum."""
        seed = self._combine(Purpose.SEED_SHARE, dealer)
        binding = bind(self._transcript, dealer)
        committed = self._holdings.dealings[dealer].seed_commitment
        if not compare_digest(committed, commit(seed, Purpose.SEED_COMMITMENT, binding)):
            raise self._blame(dealer, "dealt shares that do not give its seed")
        return seed

    def _pair_keys(self, dealer: int, peers: set[int]) -> dict[int, bytes]:
        """Return the keys of a dropped client's masks, from its recovered private key."""
        private = self._combine(Purpose.KEY_SHARE, dealer)
        if not compare_digest(public_of(private), self._members[dealer].mask_key):
            raise self._blame(dealer, "dealt shares that do not give its key")
        agreement, here, members = Agreement(private), self._transcript, self._members
        return {
            peer: pairwise_key(agreement, here, members[peer].mask_key, dealer, peer)
            for peer in peers
        }

    def _pair_key(self, holder: int, exposed: int) -> bytes:
        """Return the key of the mask between a client in the sum and one that is not."""
        if (holder, exposed) not in self._pairs:
            raise VoidRoundError(
                f"the mask that clients {self._members[holder].client} and "
                f"{self._members[exposed].client} have in common is needed, and both are gone"
            )
        return self._pairs[holder, exposed]

    def _combine(self, purpose: Purpose, dealer: int) -> bytes:
        shares, needed = self._shares[purpose, dealer], self._holdings.threshold
        if len(shares) < needed:
            raise VoidRoundError(
                f"{len(shares)} shares of client {self._members[dealer].client} are there, and "
                f"{needed} are needed"
            )
        return shamir.combine(shares, needed, self._holdings.degree + 1)

    def _blame(self, dealer: int, fault: str) -> VoidRoundError:
        self.faults[dealer] = f"it {fault}"
        return VoidRoundError(f"client {self._members[dealer].client} {fault}")
