"""One client's side of the secure sum: four answers per round, each given once and in order.

The client trusts nobody with what it holds. Whatever the server asks, it

- begins a round of a training once, with fresh keys;
- refuses a neighbourhood below `min_cohort` or a threshold that half of the share holders could
  reach without the other half;
- reveals for a peer either the share of its seed (the peer's vector is in the sum) or the share
  of its key (it is not);
- never counts itself among the dropped, and never unmasks a sum over fewer than `min_cohort` and
  `threshold` clients of its own neighbourhood;
- answers no message twice, out of order or of another round. A refusal changes nothing: a stray
  message costs nobody the round.
"""

import os
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ..wire.fixed_point import Ring
from . import crypto, message
from .client_state import ClientState, Stage
from .crypto import SEAL_BYTES, Purpose
from .message import KEY_BYTES, Exchange, Fields, Message, RefusalError, RoundId

SEALED_BYTES = SEAL_BYTES + 2 * KEY_BYTES


class SecureClient:
    """The client of one secure sum after the other.

    Parameters
    ----------
    client : int
        The id under which the server knows this client.
    min_cohort : int
        The smallest number of clients, itself included, among whom this client hides.
    state : bytes, optional
        What `state()` returned after the last answer. It holds secrets and must never leave the
        client.
    """

    def __init__(self, client: int, *, min_cohort: int = 3, state: bytes | None = None) -> None:
        if min_cohort < 2:
            raise ValueError(f"min_cohort={min_cohort} must be at least 2: one client cannot hide.")
        self._me = client
        self._min_cohort = min_cohort
        self._state = ClientState() if state is None else ClientState.from_bytes(state)

    def state(self) -> bytes:
        """Return what the client has to remember until the next message."""
        return self._state.to_bytes()

    @property
    def least_survivors(self) -> int:
        """The smallest number of clients whose sum this client helps to unmask in this round."""
        return max(self._state.threshold, self._min_cohort)

    @property
    def spoiled(self) -> list[int]:
        """The peers whose shares were not authentic in this round."""
        return list(self._state.spoiled)

    def offer_keys(self, request: Fields) -> Message:
        """Begin a round: forget the last one and make fresh keys."""
        current = RoundId.of(request, Exchange.KEYS)
        message.require(
            current.follows(self._state.round_id),
            f"round {current.round} of attempt {current.attempt} was already begun or is over",
        )
        state = ClientState(round_id=current, stage=Stage.OFFERED)
        state.share_private, share_public = crypto.generate()
        state.mask_private, mask_public = crypto.generate()
        self._state = state
        return current.begin(Exchange.KEYS) | {"share-key": share_public, "mask-key": mask_public}

    def deal_shares(self, request: Fields) -> Message:
        """Share the mask seed and the mask key among the neighbours and itself."""
        state, current = self._expect(Stage.OFFERED, request, Exchange.SHARES)
        peers = message.read_ids(request, "peers")
        share_keys = message.read_blobs(request, "share-keys", KEY_BYTES, len(peers))
        mask_keys = message.read_blobs(request, "mask-keys", KEY_BYTES, len(peers))
        threshold = message.read_int(request, "threshold")
        holders = sorted([*peers, self._me])
        self._check_neighbourhood(peers, share_keys + mask_keys, threshold)

        seed = os.urandom(KEY_BYTES)
        seed_shares, key_shares = (
            dict(zip(holders, crypto.split(secret, threshold, len(holders)), strict=True))
            for secret in (seed, state.mask_private)
        )
        sealed = [
            crypto.seal(
                self._sealing_key(current, public, self._me, peer),
                seed_shares[peer] + key_shares[peer],
                current.binding(self._me, peer),
            )
            for peer, public in zip(peers, share_keys, strict=True)
        ]

        def commitments(shares: Mapping[int, bytes], purpose: Purpose) -> list[bytes]:
            return [
                crypto.commit(share, purpose, current.binding(self._me, holder))
                for holder, share in shares.items()
            ]

        self._state = replace(
            state,
            stage=Stage.DEALT,
            threshold=threshold,
            peers=peers,
            share_keys=share_keys,
            mask_keys=mask_keys,
            seed=seed,
            seed_shares=[seed_shares[self._me]],
        )
        return current.begin(Exchange.SHARES) | {
            "peers": peers,
            "sealed": sealed,
            "seed-commitment": crypto.commit(
                seed, Purpose.SEED_COMMITMENT, current.binding(self._me)
            ),
            "seed-share-commitments": commitments(seed_shares, Purpose.SEED_SHARE),
            "key-share-commitments": commitments(key_shares, Purpose.KEY_SHARE),
        }

    def accept_shares(self, request: Fields) -> None:
        """Open the neighbours' shares; call it before training, which a refusal makes futile.

        A share that is not authentic is laid aside, and its sender gets no pairwise mask: the
        server learns of it with the masked vector and leaves the sender out.
        """
        state, current = self._expect(Stage.DEALT, request, Exchange.MASKED)
        senders = message.read_ids(request, "peers")
        sealed = message.read_blobs(request, "sealed", SEALED_BYTES, len(senders))
        keys = dict(zip(state.peers, state.share_keys, strict=True))
        message.require(keys.keys() >= set(senders), "'peers' names a client that is no neighbour")
        active, spoiled, seed_shares, key_shares = [], [], list(state.seed_shares), []
        for sender, blob in zip(senders, sealed, strict=True):
            key = self._sealing_key(current, keys[sender], sender, self._me)
            try:
                shares = crypto.unseal(key, blob, current.binding(sender, self._me))
            except RefusalError:
                spoiled.append(sender)
                continue
            active.append(sender)
            seed_shares.append(shares[:KEY_BYTES])
            key_shares.append(shares[KEY_BYTES:])
        message.require(
            len(active) + 1 >= self.least_survivors,
            f"shares of {len(active)} neighbours are authentic, and with this client "
            f"{self.least_survivors} are needed",
        )
        self._state = replace(
            state,
            stage=Stage.READY,
            active=active,
            spoiled=spoiled,
            seed_shares=seed_shares,
            key_shares=key_shares,
        )

    def mask(self, vector: Ring) -> tuple[Message, Ring]:
        """Return the third answer and `vector` under all masks; forget what made them."""
        state = self._state
        if state.stage is not Stage.READY or state.round_id is None:
            raise RefusalError(f"no vector is due: this client's round is '{state.stage}'")
        if vector.ndim != 1 or vector.dtype not in (np.uint32, np.uint64) or not vector.size:
            raise ValueError("a vector to be masked must be one-dimensional, of uint32 or uint64")
        current = state.round_id
        keys = dict(zip(state.peers, state.mask_keys, strict=True))
        plus = [crypto.derive(state.seed, Purpose.SELF_MASK, current.binding(self._me))]
        minus: list[bytes] = []
        for peer in state.active:
            key = pairwise_key(current, state.mask_private, keys[peer], self._me, peer)
            (plus if self._me > peer else minus).append(key)
        masked = vector.copy()
        crypto.apply_masks(masked, plus=plus, minus=minus)
        self._state = replace(
            state,
            stage=Stage.MASKED,
            share_private=b"",
            mask_private=b"",
            seed=b"",
            share_keys=[],
            mask_keys=[],
        )
        return current.begin(Exchange.MASKED) | {"spoiled": list(state.spoiled)}, masked

    def unmask(self, request: Fields) -> Message:
        """Reveal one share per neighbour, and forget the round."""
        state, current = self._expect(Stage.MASKED, request, Exchange.UNMASK)
        survivors = message.read_ids(request, "survivors")
        dropped = message.read_ids(request, "dropped")
        both = set(survivors) & set(dropped)
        message.require(not both, "both kinds of share are asked for the same client")
        counted = self._me in survivors
        message.require(counted, "this client is asked to unmask a sum without its own vector")
        whole = {*survivors, *dropped} == {self._me, *state.active}
        message.require(whole, "'survivors' and 'dropped' are not this client's neighbourhood")
        message.require(
            len(survivors) >= self.least_survivors,
            f"the sum would be over {len(survivors)} clients of this neighbourhood, "
            f"and {self.least_survivors} are needed",
        )
        seed_shares = dict(zip([self._me, *state.active], state.seed_shares, strict=True))
        key_shares = dict(zip(state.active, state.key_shares, strict=True))
        self._state = ClientState(round_id=current, stage=Stage.OVER)
        return current.begin(Exchange.UNMASK) | {
            "survivors": survivors,
            "seed-shares": [seed_shares[peer] for peer in survivors],
            "dropped": dropped,
            "key-shares": [key_shares[peer] for peer in dropped],
        }

    def _expect(
        self, stage: Stage, request: Fields, exchange: Exchange
    ) -> tuple[ClientState, RoundId]:
        state = self._state
        if state.stage is not stage or state.round_id is None:
            raise RefusalError(
                f"the exchange '{exchange}' is not due: this client's round is '{state.stage}'"
            )
        state.round_id.check(request, exchange)
        return state, state.round_id

    def _check_neighbourhood(self, peers: list[int], keys: list[bytes], threshold: int) -> None:
        holders = len(peers) + 1
        message.require(self._me not in peers, "'peers' names this client as its own neighbour")
        small = f"a cohort of {holders} is below this client's min_cohort={self._min_cohort}"
        message.require(holders >= self._min_cohort, small)
        wrong = f"threshold {threshold} of {holders} must be more than half and at most all"
        message.require(holders < 2 * threshold <= 2 * holders, wrong)
        own = {
            crypto.public_of(self._state.share_private),
            crypto.public_of(self._state.mask_private),
        }
        message.require(len(own | set(keys)) == len(keys) + 2, "a public key appears twice")
        for key in keys:
            crypto.check_public(key)

    def _sealing_key(self, current: RoundId, public: bytes, sender: int, receiver: int) -> bytes:
        pair = current.binding(sender, receiver)
        return crypto.agree(self._state.share_private, public, Purpose.SHARE_SEALING, pair)


def pairwise_key(current: RoundId, private: bytes, public: bytes, one: int, other: int) -> bytes:
    """Return the key of the mask that two clients have in common, from either one's private key."""
    pair = current.binding(min(one, other), max(one, other))
    return crypto.agree(private, public, Purpose.PAIRWISE_MASK, pair)
