"""One client's side of the secure sum: one answer per exchange, each given once and in order.

The client trusts nobody with what it holds. Whatever the server asks, it

- begins a round of a training once, with fresh keys, and says which model and config it is about;
- with a roster, takes only cohorts all of whose members are in it and signed the same terms;
- draws the holders of its shares itself, and refuses cohorts below `min_cohort` and numbers of
  holders or thresholds that miss the bounds of `Topology`;
- reveals for a peer either the share of its seed (the peer's vector is in the sum) or the share
  of its key (it is not);
- never counts itself among the dropped, and never unmasks a sum over fewer than `min_cohort` and
  `threshold` of its own holders, nor, with a roster, one whose survivors fewer than two thirds of
  the cohort have signed;
- answers no message twice, out of order or of another round. A refusal changes nothing: a stray
  message costs nobody the round.
"""

import random
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from ..checks import check
from ..wire.fixed_point import Ring
from . import crypto, shamir
from .checks import Checks
from .client_state import ClientState, Stage
from .cohort import Cohort, Member, Terms, bind, survivors_statement
from .crypto import Agreement, Purpose
from .dealing import SEALED_BYTES, SHARES_BYTES, deal, open_shares, pairwise_key
from .graph import Topology
from .identity import Identity, Roster, roster_digest
from .message import (
    KEY_BYTES,
    PLACE_BYTES,
    Exchange,
    Fields,
    Message,
    RefusalError,
    RoundId,
    cut,
    pack_places,
    pack_set,
    read_blobs,
    read_int,
    read_places,
    read_set,
    require,
)


class SecureClient:
    """The client of one secure sum after the other.

    Parameters
    ----------
    client : int
        The id under which the server knows this client.
    min_cohort : int
        The smallest number of clients, itself included, among whom this client hides.
    topology : Topology, optional
        The fraction of clients that may collude: what this client has the server's choices meet.
    identity, roster : Identity, Roster, optional
        Who this client is, and with whom it takes part; both or neither.
    state : bytes, optional
        What `state()` returned after the last answer. It holds secrets and must never leave the
        client.
    """

    def __init__(
        self,
        client: int,
        *,
        min_cohort: int = 3,
        topology: Topology | None = None,
        identity: Identity | None = None,
        roster: Roster | None = None,
        state: bytes | None = None,
    ) -> None:
        check("min_cohort", min_cohort, min_cohort >= 2, "at least 2: one client cannot hide")
        if (identity is None) != (roster is None):
            raise ValueError("identity and roster must be given together.")
        self._client = client
        self._checks = Checks(min_cohort, topology or Topology(), roster)
        self._identity = identity
        self._state = ClientState() if state is None else ClientState.from_bytes(state)

    def state(self) -> bytes:
        """Return what the client has to remember until the next message."""
        return self._state.to_bytes()

    @property
    def least_survivors(self) -> int:
        """The smallest number of clients whose sum this client helps to unmask in this round."""
        return self._checks.least_survivors(self._state)

    @property
    def terms(self) -> Terms | None:
        """What this client was told that its round is about."""
        return self._state.terms

    @property
    def spoiled(self) -> list[int]:
        """The places of the peers whose shares were not what they have to be in this round."""
        return list(self._state.spoiled)

    def offer_keys(self, request: Fields) -> Message:
        """Begin a round: forget the last one and make fresh keys."""
        current = RoundId.of(request, Exchange.KEYS)
        last = self._state.terms
        require(
            current.follows(None if last is None else last.round_id),
            f"round {current.round} of attempt {current.attempt} was already begun or is over",
        )
        terms = Terms.of(request, current, roster_digest(self._checks.roster))
        state = ClientState(terms=terms, stage=Stage.OFFERED)
        state.share_private, share_public = crypto.generate()
        state.mask_private, mask_public = crypto.generate()
        name = self._identity.name if self._identity else ""
        member = Member(self._client, share_public, mask_public, name)
        self._state = state
        return current.begin(Exchange.KEYS) | {
            "name": name,
            "share-key": share_public,
            "mask-key": mask_public,
            "roster": terms.roster,
            "signature": self._sign(terms.statement(member)),
        }

    def deal_shares(self, request: Fields) -> Message:
        """Draw holders, and share the mask seed and the mask key among them and itself."""
        state, terms = self._expect(Stage.OFFERED, request, Exchange.SHARES)
        cohort = Cohort.of(request, signed=self._checks.roster is not None)
        degree, threshold = read_int(request, "degree"), read_int(request, "threshold")
        self._checks.bounds(len(cohort), degree, threshold)
        me = self._checks.cohort(cohort, self._client, state, terms)
        others = [place for place in range(len(cohort)) if place != me]
        drawn = random.SystemRandom().sample(others, degree)
        seed, transcript = shamir.random_secret(), cohort.transcript(terms)
        dealing, own_share = deal(
            cohort,
            transcript,
            me=me,
            holders=drawn,
            threshold=threshold,
            share_private=state.share_private,
            secrets=(seed, state.mask_private),
        )
        self._state = replace(
            state,
            stage=Stage.DEALT,
            transcript=transcript,
            cohort=len(cohort),
            me=me,
            threshold=threshold,
            names="\n".join(member.name for member in cohort.members),
            public_keys=b"".join(m.share_key + m.mask_key for m in cohort.members),
            drawn=drawn,
            seed=seed,
            seed_shares=own_share,
        )
        return terms.round_id.begin(Exchange.SHARES) | dealing.to_fields()

    def accept_shares(self, request: Fields) -> None:
        """Open the shares of others; call it before training, which a refusal makes futile.

        A share that is not authentic or not what its dealer committed to is laid aside, which the
        server learns with the masked vector.
        """
        state, _ = self._expect(Stage.DEALT, request, Exchange.MASKED)
        dealers = read_set(request, "dealers", state.cohort)
        senders = read_places(request, "senders", state.cohort)
        require(state.me in dealers, "'dealers' leaves this client out")
        require(dealers - {state.me} >= set(senders), "'senders' names a client that dealt nothing")
        self._checks.hood(state, dealers)
        shares = self._open(request, senders)
        held = [sender for sender, pair in shares.items() if pair]
        require(
            len(held) + 1 >= self._checks.min_cohort and 2 * len(held) >= len(senders),
            f"shares of {len(held)} of {len(senders)} clients are authentic, and half of them are "
            f"needed, and with this client {self._checks.min_cohort}",
        )
        agreement = Agreement(state.mask_private)
        partners = sorted({*senders, *dealers.intersection(state.drawn)})
        pair_keys = [
            pairwise_key(agreement, state.transcript, self._key(2 * peer + 1), state.me, peer)
            for peer in partners
        ]
        self._state = replace(
            state,
            stage=Stage.READY,
            dealers=pack_set(dealers, state.cohort),
            held=held,
            spoiled=[sender for sender, pair in shares.items() if not pair],
            seed_shares=state.seed_shares + b"".join(shares[sender][0] for sender in held),
            key_shares=b"".join(shares[sender][1] for sender in held),
            partners=partners,
            pair_keys=b"".join(pair_keys),
            share_private=b"",
            mask_private=b"",
            public_keys=b"",
        )

    def _open(self, request: Fields, senders: list[int]) -> dict[int, list[bytes]]:
        """Return the shares by sender, none where they are not what they have to be."""
        count, state = len(senders), self._state
        sealed = read_blobs(request, "sealed", SEALED_BYTES, count)
        commitments = read_blobs(request, "commitments", SHARES_BYTES, count)
        numbers = read_blobs(request, "numbers", PLACE_BYTES, count)
        agreement = Agreement(state.share_private)
        shares = {}
        for sender, number, blob, dealt in zip(senders, numbers, sealed, commitments, strict=True):
            binding = bind(state.transcript, sender, state.me) + number
            key = agreement.key(self._key(2 * sender), Purpose.SHARE_SEALING, binding)
            shares[sender] = open_shares(key, blob, binding, dealt)
        return shares

    def mask(self, vector: Ring) -> tuple[Message, Ring]:
        """Return the third answer and `vector` under all masks; forget what made them."""
        state = self._state
        if state.stage is not Stage.READY or state.terms is None:
            raise RefusalError(f"no vector is due: this client's round is '{state.stage}'")
        if vector.ndim != 1 or vector.dtype not in (np.uint32, np.uint64) or not vector.size:
            raise ValueError("a vector to be masked must be one-dimensional, of uint32 or uint64")
        plus = [crypto.derive(state.seed, Purpose.SELF_MASK, bind(state.transcript, state.me))]
        minus: list[bytes] = []
        for peer, key in zip(state.partners, cut(state.pair_keys, KEY_BYTES), strict=True):
            (plus if state.me > peer else minus).append(key)
        masked = vector.copy()
        crypto.apply_masks(masked, plus=plus, minus=minus)
        self._state = replace(state, stage=Stage.MASKED, seed=b"")
        if self._checks.roster is None:
            self._state = replace(self._state, partners=[], pair_keys=b"")
        head = state.terms.round_id.begin(Exchange.MASKED)
        return head | {"spoiled": pack_places(state.spoiled)}, masked

    def sign_survivors(self, request: Fields) -> Message:
        """Sign whose vectors are in the sum, once."""
        state, terms = self._expect(Stage.MASKED, request, Exchange.CONSISTENCY)
        survivors = pack_set(self._checks.survivors(request, self._state), state.cohort)
        signature = self._sign(survivors_statement(state.transcript, survivors))
        require(bool(signature), "this client has no key to sign with, and no roster")
        self._state = replace(state, stage=Stage.AGREED, survivors=survivors)
        return terms.round_id.begin(Exchange.CONSISTENCY) | {"signature": signature}

    def unmask(self, request: Fields) -> Message:
        """Reveal one share per client that dealt one to this client, and forget the round."""
        due = Stage.MASKED if self._checks.roster is None else Stage.AGREED
        state, terms = self._expect(due, request, Exchange.UNMASK)
        survivors = self._checks.survivors(request, self._state)
        self._checks.signatures(request, state, survivors)
        exposed = read_places(request, "exposed", state.cohort)
        # Without signatures, others may have been told that the client is in the sum.
        known = self._checks.roster is not None or not exposed
        require(known, "masks of single clients are revealed only with a roster")
        require(survivors.isdisjoint(exposed), "a mask of two clients in the sum is asked for")
        seed_shares = dict(
            zip([state.me, *state.held], cut(state.seed_shares, KEY_BYTES), strict=True)
        )
        key_shares = dict(zip(state.held, cut(state.key_shares, KEY_BYTES), strict=True))
        pair_keys = dict(zip(state.partners, cut(state.pair_keys, KEY_BYTES), strict=True))
        self._state = ClientState(terms=terms, stage=Stage.OVER)
        return terms.round_id.begin(Exchange.UNMASK) | {
            "seed-shares": _joined(seed_shares, survivors),
            "key-shares": _joined(key_shares, key_shares.keys() - survivors),
            "pair-keys": _joined(pair_keys, exposed),
        }

    def _sign(self, statement: bytes) -> bytes:
        return self._identity.sign(statement) if self._identity else b""

    def _key(self, number: int) -> bytes:
        """Return a member's share key (even numbers) or mask key (odd ones)."""
        return self._state.public_keys[number * KEY_BYTES : (number + 1) * KEY_BYTES]

    def _expect(
        self, stage: Stage, request: Fields, exchange: Exchange
    ) -> tuple[ClientState, Terms]:
        state = self._state
        if state.stage is not stage or state.terms is None:
            raise RefusalError(
                f"the exchange '{exchange}' is not due: this client's round is '{state.stage}'"
            )
        state.terms.round_id.check(request, exchange)
        return state, state.terms


def _joined(values: dict[int, bytes], places: Iterable[int]) -> bytes:
    return b"".join(values[place] for place in sorted(values.keys() & set(places)))
