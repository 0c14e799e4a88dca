"""The server's side of one secure sum: it relays, sees who is gone, and takes the masks off.

Call in order, handing on the clients' answers by client id:

``keys_request`` → ``collect_keys`` → ``shares_requests`` → ``collect_shares`` →
``masked_requests`` → ``collect_masked`` → ``unmask_requests`` → ``collect_unmask``

Each ``collect`` returns whose answers were refused and why; such a client is out of the round,
like one that did not answer. Each raises `VoidRoundError` once too few are left.
"""

import random
from collections.abc import Mapping

import numpy as np
from numpy.typing import DTypeLike

from ..wire.fixed_point import Ring
from .client import SEALED_BYTES, pairwise_key
from .errors import RefusalError, VoidRoundError
from .graph import Topology, parts
from .keys import Purpose, check_public, derive
from .masks import apply_masks
from .message import KEY_BYTES, Exchange, Message, RoundId, read_blobs, read_bytes, read_ids
from .recovery import Dealing, Recovery

Refused = dict[int, str]


class SecureRound:
    """One round as the server sees it.

    Parameters
    ----------
    round_id : RoundId
        The round, bound into every key and message.
    size, dtype : int, dtype
        The length and ring (uint32 or uint64) of the vectors to be summed.
    min_cohort : int
        A sum over fewer clients is void.
    topology : Topology
        Who shares with whom.
    rng : random.Random, optional
        Draws the neighbour graph; from the system's entropy if not given.
    """

    def __init__(
        self,
        round_id: RoundId,
        *,
        size: int,
        dtype: DTypeLike = np.uint32,
        min_cohort: int = 3,
        topology: Topology | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self._round = round_id
        self._size = size
        self._dtype = np.dtype(dtype)
        self._min_cohort = min_cohort
        self._topology = topology or Topology()
        self._rng = rng or random.SystemRandom()
        self._due: Exchange | None = Exchange.KEYS
        self._share_keys: dict[int, bytes] = {}
        self._mask_keys: dict[int, bytes] = {}
        self._hoods: dict[int, list[int]] = {}
        self._dealings: dict[int, Dealing] = {}
        self._dealers: set[int] = set()
        self._masked_with: dict[int, set[int]] = {}
        self._counted: set[int] = set()
        self._total: Ring = np.zeros(size, self._dtype)

    @property
    def counted(self) -> frozenset[int]:
        """The clients whose vector is in the sum."""
        return frozenset(self._counted)

    def keys_request(self) -> Message:
        """Return the first message, the same for every client."""
        return self._round.begin(Exchange.KEYS)

    def collect_keys(self, replies: Mapping[int, Mapping[str, object]]) -> Refused:
        """Take the public keys and draw the neighbour graph over those who sent them."""
        self._advance(Exchange.KEYS, Exchange.SHARES)
        refused: Refused = {}
        taken: set[bytes] = set()
        for client, reply in sorted(replies.items()):
            try:
                self._round.check(reply, Exchange.KEYS)
                keys = [read_bytes(reply, key, KEY_BYTES) for key in ("share-key", "mask-key")]
                if taken & set(keys) or keys[0] == keys[1]:
                    raise RefusalError("a public key appears twice")
                # Its neighbours would all refuse a bad one, and so cost others the round.
                for key in keys:
                    check_public(key)
            except RefusalError as reason:
                refused[client] = str(reason)
                continue
            taken.update(keys)
            self._share_keys[client], self._mask_keys[client] = keys
        self._need(len(self._mask_keys), "sent keys")
        # A client can only count its own neighbourhood: from 2·min_cohort - 1 on, reaching the
        # threshold implies reaching min_cohort there.
        self._hoods = self._topology.neighbourhoods(
            self._mask_keys.keys(), self._rng, least=2 * self._min_cohort - 1
        )
        return refused

    def shares_requests(self) -> dict[int, Message]:
        """Return the second messages: to every client the keys of its neighbours."""
        requests = {}
        for client, hood in self._hoods.items():
            peers = [peer for peer in hood if peer != client]
            requests[client] = self._round.begin(Exchange.SHARES) | {
                "peers": peers,
                "share-keys": [self._share_keys[peer] for peer in peers],
                "mask-keys": [self._mask_keys[peer] for peer in peers],
                "threshold": self._threshold(client),
            }
        return requests

    def collect_shares(self, replies: Mapping[int, Mapping[str, object]]) -> Refused:
        """Take the sealed shares; leave out clients that have too few neighbours left."""
        self._advance(Exchange.SHARES, Exchange.MASKED)
        refused: Refused = {}
        for client, reply in sorted(replies.items()):
            try:
                self._dealings[client] = self._read_dealing(client, reply)
            except RefusalError as reason:
                refused[client] = str(reason)
        self._dealers = set(self._dealings)
        while lonely := {
            client
            for client in self._dealers
            if len(self._dealers.intersection(self._hoods[client])) < self._threshold(client)
        }:
            refused |= dict.fromkeys(lonely, "too few of its neighbours dealt shares")
            self._dealers -= lonely
        self._need(len(self._dealers), "dealt shares")
        return refused

    def masked_requests(self) -> dict[int, Message]:
        """Return the third messages: to every client the shares that are meant for it."""
        requests = {}
        for client in self._dealers:
            peers = [peer for peer in self._hoods[client] if peer in self._dealers - {client}]
            requests[client] = self._round.begin(Exchange.MASKED) | {
                "peers": peers,
                "sealed": [self._dealings[peer].sealed[client] for peer in peers],
            }
        return requests

    def collect_masked(self, replies: Mapping[int, tuple[Mapping[str, object], Ring]]) -> Refused:
        """Add up the masked vectors.

        A client whose shares a neighbour could not open is left out, because its masks might not
        be removable.
        """
        self._advance(Exchange.MASKED, Exchange.UNMASK)
        refused: Refused = {}
        spoiled: set[int] = set()
        for client, (reply, vector) in sorted(replies.items()):
            try:
                complaints = self._read_masked(client, reply, vector)
            except RefusalError as reason:
                refused[client] = str(reason)
                continue
            spoiled |= complaints
            peers = self._dealers.intersection(self._hoods[client]) - {client}
            self._masked_with[client] = peers - complaints
        for client in spoiled & self._masked_with.keys():
            refused[client] = "a neighbour could not open its shares"
            del self._masked_with[client]
        for client in sorted(self._masked_with):
            self._total += replies[client][1]
        self._counted = set(self._masked_with)
        self._need(len(self._counted), "sent masked vectors")
        self._check_recoverable()
        self._check_undivided()
        return refused

    def unmask_requests(self) -> dict[int, Message]:
        """Return the last messages: to every client in the sum, which of its neighbours are."""
        requests = {}
        for client, peers in self._masked_with.items():
            hood = {client, *peers}
            requests[client] = self._round.begin(Exchange.UNMASK) | {
                "survivors": sorted(hood & self._counted),
                "dropped": sorted(hood - self._counted),
            }
        return requests

    def collect_unmask(self, replies: Mapping[int, Mapping[str, object]]) -> tuple[Ring, Refused]:
        """Recover the seeds and keys that are needed, and return the sum without masks."""
        self._advance(Exchange.UNMASK, None)
        asked = self.unmask_requests()
        recovery = Recovery(self._round, self._dealings)
        refused: Refused = {}
        for client, reply in sorted(replies.items()):
            try:
                if client not in asked:
                    raise RefusalError("it was not asked to unmask")
                self._round.check(reply, Exchange.UNMASK)
                recovery.take(client, reply, asked[client])
            except RefusalError as reason:
                refused[client] = str(reason)
        plus: list[bytes] = []
        minus: list[bytes] = []
        for client in sorted(self._counted):
            seed = recovery.seed(client)
            minus.append(derive(seed, Purpose.SELF_MASK, self._round.binding(client)))
        for client in sorted(self._dealers - self._counted):
            partners = self._partners(client)
            if not partners:
                continue
            private = recovery.mask_private(client, self._mask_keys[client])
            for peer in partners:
                key = pairwise_key(self._round, private, self._mask_keys[peer], client, peer)
                (minus if peer > client else plus).append(key)
        apply_masks(self._total, plus=plus, minus=minus)
        return self._total, refused

    def _partners(self, client: int) -> list[int]:
        """Return the clients in the sum that share a mask with `client`, and hold its shares."""
        return sorted(peer for peer, peers in self._masked_with.items() if client in peers)

    def _check_recoverable(self) -> None:
        """Void the round before anyone reveals a share in vain."""
        for client in sorted(self._dealers):
            holders = len(self._partners(client)) + (client in self._counted)
            if 0 < holders < self._threshold(client):
                self._due = None
                raise VoidRoundError(
                    f"{holders} holders of shares of client {client} are left, and "
                    f"{self._threshold(client)} are needed"
                )

    def _check_undivided(self) -> None:
        """Void a round whose masks would come off each of several smaller sums."""
        found = parts({c: peers & self._counted for c, peers in self._masked_with.items()})
        if len(found) > 1:
            self._due = None
            raise VoidRoundError(
                f"the clients left share masks only within {len(found)} parts of them, the "
                f"smallest of {min(map(len, found))}, and one part is needed"
            )

    def _threshold(self, client: int) -> int:
        return self._topology.shares_needed(len(self._hoods[client]))

    def _advance(self, due: Exchange, then: Exchange | None) -> None:
        if self._due is not due:
            raise RuntimeError(f"the exchange '{due}' is not due in this round")
        self._due = then

    def _need(self, present: int, what: str) -> None:
        if present < self._min_cohort:
            self._due = None
            raise VoidRoundError(f"{present} clients {what}, and {self._min_cohort} are needed")

    def _read_dealing(self, client: int, reply: Mapping[str, object]) -> Dealing:
        self._round.check(reply, Exchange.SHARES)
        if client not in self._hoods:
            raise RefusalError("it sent no keys")
        hood = self._hoods[client]
        peers = read_ids(reply, "peers")
        if peers != [peer for peer in hood if peer != client]:
            raise RefusalError("'peers' is not its neighbourhood")
        return Dealing(
            threshold=self._threshold(client),
            holders=hood,
            sealed=dict(
                zip(peers, read_blobs(reply, "sealed", SEALED_BYTES, len(peers)), strict=True)
            ),
            seed_commitment=read_bytes(reply, "seed-commitment", KEY_BYTES),
            seed_shares=read_blobs(reply, "seed-share-commitments", KEY_BYTES, len(hood)),
            key_shares=read_blobs(reply, "key-share-commitments", KEY_BYTES, len(hood)),
        )

    def _read_masked(self, client: int, reply: Mapping[str, object], vector: Ring) -> set[int]:
        self._round.check(reply, Exchange.MASKED)
        if client not in self._dealers:
            raise RefusalError("it dealt no shares")
        complaints = set(read_ids(reply, "spoiled"))
        if not complaints <= self._dealers.intersection(self._hoods[client]) - {client}:
            raise RefusalError("'spoiled' names a client that is no neighbour")
        if vector.shape != (self._size,) or vector.dtype != self._dtype:
            raise RefusalError(
                f"its vector has shape {vector.shape} and dtype {vector.dtype}, "
                f"not ({self._size},) and {self._dtype}"
            )
        return complaints
