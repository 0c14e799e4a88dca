"""The server's side of one secure sum: it relays, sees who is gone, and takes the masks off.

Call in order, handing on the clients' answers by client id:

``keys_request`` → ``collect_keys`` → ``shares_requests`` → ``collect_shares`` →
``masked_requests`` → ``collect_masked`` → ``unmask_requests`` → ``collect_unmask``

Each ``collect`` returns whose answers were refused and why; such a client is out of the round,
like one that did not answer. Each raises `VoidRoundError` once too few are left.
"""

import random
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from ..wire.fixed_point import Ring
from . import crypto, message
from .client import SEALED_BYTES, pairwise_key
from .crypto import Purpose
from .graph import Topology, parts
from .message import KEY_BYTES, Exchange, Fields, Message, RefusalError, RoundId, VoidRoundError
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
        self._due = list(Exchange)
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

    def collect_keys(self, replies: Mapping[int, Fields]) -> Refused:
        """Take the public keys and draw the neighbour graph over those who sent them."""
        taken: set[bytes] = set()

        def take(client: int, reply: Fields) -> None:
            self._round.check(reply, Exchange.KEYS)
            keys = [message.read_bytes(reply, key, KEY_BYTES) for key in ("share-key", "mask-key")]
            fresh = not taken & set(keys) and keys[0] != keys[1]
            message.require(fresh, "a public key appears twice")
            # Its neighbours would all refuse a bad one, and so cost others the round.
            for key in keys:
                crypto.check_public(key)
            taken.update(keys)
            self._share_keys[client], self._mask_keys[client] = keys

        refused = self._collect(Exchange.KEYS, replies, take)
        self._need_cohort(len(self._mask_keys), "sent keys")
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

    def collect_shares(self, replies: Mapping[int, Fields]) -> Refused:
        """Take the sealed shares; leave out clients that have too few neighbours left."""
        refused = self._collect(Exchange.SHARES, replies, self._take_dealing)
        self._dealers = set(self._dealings)
        while lonely := {
            client
            for client in self._dealers
            if len(self._peers(client)) + 1 < self._threshold(client)
        }:
            refused |= dict.fromkeys(lonely, "too few of its neighbours dealt shares")
            self._dealers -= lonely
        self._need_cohort(len(self._dealers), "dealt shares")
        return refused

    def masked_requests(self) -> dict[int, Message]:
        """Return the third messages: to every client the shares that are meant for it."""
        return {
            client: self._round.begin(Exchange.MASKED)
            | {
                "peers": (peers := sorted(self._peers(client))),
                "sealed": [self._dealings[peer].sealed[client] for peer in peers],
            }
            for client in self._dealers
        }

    def collect_masked(self, replies: Mapping[int, tuple[Fields, Ring]]) -> Refused:
        """Add up the masked vectors.

        A client whose shares a neighbour could not open is left out, because its masks might not
        be removable.
        """
        spoiled: set[int] = set()

        def take(client: int, reply: tuple[Fields, Ring]) -> None:
            complaints = self._read_masked(client, *reply)
            spoiled.update(complaints)
            self._masked_with[client] = self._peers(client) - complaints

        refused = self._collect(Exchange.MASKED, replies, take)
        for client in spoiled & self._masked_with.keys():
            refused[client] = "a neighbour could not open its shares"
            del self._masked_with[client]
        for client in sorted(self._masked_with):
            self._total += replies[client][1]
        self._counted = set(self._masked_with)
        self._need_cohort(len(self._counted), "sent masked vectors")
        self._check_recoverable()
        self._check_undivided()
        return refused

    def unmask_requests(self) -> dict[int, Message]:
        """Return the last messages: to every client in the sum, which of its neighbours are."""
        return {
            client: self._round.begin(Exchange.UNMASK)
            | {
                "survivors": sorted({client, *peers} & self._counted),
                "dropped": sorted(peers - self._counted),
            }
            for client, peers in self._masked_with.items()
        }

    def collect_unmask(self, replies: Mapping[int, Fields]) -> tuple[Ring, Refused]:
        """Recover the seeds and keys that are needed, and return the sum without masks."""
        asked = self.unmask_requests()
        recovery = Recovery(self._round, self._dealings)

        def take(client: int, reply: Fields) -> None:
            message.require(client in asked, "it was not asked to unmask")
            self._round.check(reply, Exchange.UNMASK)
            recovery.take(client, reply, asked[client])

        refused = self._collect(Exchange.UNMASK, replies, take)
        plus: list[bytes] = []
        minus = [
            crypto.derive(recovery.seed(client), Purpose.SELF_MASK, self._round.binding(client))
            for client in sorted(self._counted)
        ]
        for client in sorted(self._dealers - self._counted):
            partners = self._partners(client)
            if not partners:
                continue
            private = recovery.mask_private(client, self._mask_keys[client])
            for peer in partners:
                key = pairwise_key(self._round, private, self._mask_keys[peer], client, peer)
                (minus if peer > client else plus).append(key)
        crypto.apply_masks(self._total, plus=plus, minus=minus)
        return self._total, refused

    def _collect(
        self, exchange: Exchange, replies: Mapping[int, Any], take: Callable[[int, Any], None]
    ) -> Refused:
        """Take the answers of the exchange that is due; return whose were refused and why."""
        if self._due[:1] != [exchange]:
            raise RuntimeError(f"the exchange '{exchange}' is not due in this round")
        del self._due[0]
        refused: Refused = {}
        for client, reply in sorted(replies.items()):
            try:
                take(client, reply)
            except RefusalError as reason:
                refused[client] = str(reason)
        return refused

    def _peers(self, client: int) -> set[int]:
        """Return the neighbours of a client that dealt shares."""
        return self._dealers.intersection(self._hoods[client]) - {client}

    def _partners(self, client: int) -> list[int]:
        """Return the clients in the sum that share a mask with `client`, and hold its shares."""
        return sorted(peer for peer, peers in self._masked_with.items() if client in peers)

    def _threshold(self, client: int) -> int:
        return self._topology.shares_needed(len(self._hoods[client]))

    def _void(self, reason: str) -> VoidRoundError:
        self._due.clear()
        return VoidRoundError(reason)

    def _need_cohort(self, present: int, what: str) -> None:
        if present < self._min_cohort:
            raise self._void(f"{present} clients {what}, and {self._min_cohort} are needed")

    def _check_recoverable(self) -> None:
        """Void the round before anyone reveals a share in vain."""
        for client in sorted(self._dealers):
            holders = len(self._partners(client)) + (client in self._counted)
            needed = self._threshold(client)
            if 0 < holders < needed:
                raise self._void(
                    f"{holders} holders of shares of client {client} are left, and "
                    f"{needed} are needed"
                )

    def _check_undivided(self) -> None:
        """Void a round whose masks would come off each of several smaller sums."""
        found = parts({c: peers & self._counted for c, peers in self._masked_with.items()})
        if len(found) > 1:
            raise self._void(
                f"the clients left share masks only within {len(found)} parts of them, the "
                f"smallest of {min(map(len, found))}, and one part is needed"
            )

    def _take_dealing(self, client: int, reply: Fields) -> None:
        self._round.check(reply, Exchange.SHARES)
        message.require(client in self._hoods, "it sent no keys")
        hood = self._hoods[client]
        peers = message.read_ids(reply, "peers")
        whole = peers == [peer for peer in hood if peer != client]
        message.require(whole, "'peers' is not its neighbourhood")
        sealed = message.read_blobs(reply, "sealed", SEALED_BYTES, len(peers))
        self._dealings[client] = Dealing(
            threshold=self._threshold(client),
            holders=hood,
            sealed=dict(zip(peers, sealed, strict=True)),
            seed_commitment=message.read_bytes(reply, "seed-commitment", KEY_BYTES),
            commitments={
                purpose: message.read_blobs(reply, key, KEY_BYTES, len(hood))
                for purpose, key in (
                    (Purpose.SEED_SHARE, "seed-share-commitments"),
                    (Purpose.KEY_SHARE, "key-share-commitments"),
                )
            },
        )

    def _read_masked(self, client: int, reply: Fields, vector: Ring) -> set[int]:
        self._round.check(reply, Exchange.MASKED)
        message.require(client in self._dealers, "it dealt no shares")
        complaints = set(message.read_ids(reply, "spoiled"))
        known = complaints <= self._peers(client)
        message.require(known, "'spoiled' names a client that is no neighbour")
        message.require(
            vector.shape == (self._size,) and vector.dtype == self._dtype,
            f"its vector has shape {vector.shape} and dtype {vector.dtype}, "
            f"not ({self._size},) and {self._dtype}",
        )
        return complaints
