"""The server's side of one secure sum: it relays, sees who is gone, and takes the masks off.

Call in order, handing on the clients' answers by client id:

``keys_request`` → ``collect_keys`` → ``shares_requests`` → ``collect_shares`` →
``masked_requests`` → ``collect_masked`` → (with a roster ``consistency_requests`` →
``collect_consistency``) → ``unmask_requests`` → ``collect_unmask``

Each ``collect`` returns whose answers were refused and why; such a client is out of the round,
like one that did not answer. Each raises `VoidRoundError` once too few are left.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from ..wire.fixed_point import Ring
from . import crypto
from .cohort import NO_ROSTER, SIGNATURE_BYTES, Cohort, Member, Terms, quorum, survivors_statement
from .dealing import Dealing
from .graph import Topology
from .holdings import Holdings
from .identity import Roster, read_member, roster_digest
from .message import (
    MAX_COHORT,
    Exchange,
    Fields,
    Message,
    RefusalError,
    RoundId,
    VoidRoundError,
    pack_places,
    pack_set,
    read_bytes,
    read_places,
    require,
)
from .recovery import Recovery

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
        How many holders a client draws for its shares.
    model, config : bytes
        The hashes of the model that clients train, and of the config that all have in common.
    roster : Roster, optional
        The clients that may take part, so that others cannot make them refuse.
    """

    def __init__(
        self,
        round_id: RoundId,
        *,
        size: int,
        dtype: DTypeLike = np.uint32,
        min_cohort: int = 3,
        topology: Topology | None = None,
        model: bytes = NO_ROSTER,
        config: bytes = NO_ROSTER,
        roster: Roster | None = None,
    ) -> None:
        self._round = round_id
        self._terms = Terms(round_id, model, config, roster_digest(roster))
        self._roster = roster
        self._dtype, self._min_cohort = np.dtype(dtype), min_cohort
        self._topology = topology or Topology()
        checked = [] if roster is None else [Exchange.CONSISTENCY]
        self._due = [*list(Exchange)[:3], *checked, Exchange.UNMASK]
        self._cohort = Cohort([])
        self._transcript = b""
        self._holdings = Holdings(0, 0, 0)
        self._signatures: dict[int, bytes] = {}
        self._total: Ring = np.zeros(size, self._dtype)
        self.refused: Refused = {}
        """Whose answers were refused in any exchange so far, and why, if the round is void."""
        self.offences: dict[int, str] = {}
        """The clients that broke the protocol in a way that only they can have, and how."""

    @property
    def cohort(self) -> int:
        """How many clients sent keys."""
        return len(self._cohort)

    @property
    def counted(self) -> frozenset[int]:
        """The clients whose vector is in the sum."""
        return frozenset(self._cohort.members[place].client for place in self._holdings.counted)

    def keys_request(self) -> Message:
        """Return the first message, the same for every client."""
        hashes = {"model": self._terms.model, "config": self._terms.config}
        return self._round.begin(Exchange.KEYS) | hashes

    def collect_keys(self, replies: Mapping[int, Fields]) -> Refused:
        """Take the public keys: whoever sent them is in the cohort."""
        members: list[Member] = []
        taken: set[bytes | str] = set()

        def take(client: int, reply: Fields) -> None:
            self._round.check(reply, Exchange.KEYS)
            member = read_member(client, reply, self._terms, self._roster)
            own: set[bytes | str] = {member.share_key, member.mask_key}
            own |= {member.name} if self._roster else set()
            fresh = not taken & own and member.share_key != member.mask_key
            require(fresh, "a public key or a name appears twice")
            require(len(members) < MAX_COHORT, f"{MAX_COHORT} clients are the most")
            taken.update(own)
            members.append(member)

        refused = self._collect(Exchange.KEYS, replies, take)
        self._need_cohort(len(members), "sent keys")
        self._cohort = Cohort(members)
        self._transcript = self._cohort.transcript(self._terms)
        degree = self._topology.degree(len(members), self._min_cohort)
        needed = self._topology.shares_needed(degree + 1)
        self._holdings = Holdings(len(members), degree, needed)
        return refused

    def shares_requests(self) -> dict[int, Message]:
        """Return the second messages: to every client the keys of all, and how many to draw."""
        request = self._round.begin(Exchange.SHARES) | self._cohort.to_fields()
        request |= {"degree": self._holdings.degree, "threshold": self._holdings.threshold}
        return dict.fromkeys(self._cohort.places, request)

    def collect_shares(self, replies: Mapping[int, Fields]) -> Refused:
        """Take the sealed shares; leave out clients that have too few holders left."""
        holdings = self._holdings

        def take(place: int, reply: Fields) -> None:
            self._round.check(reply, Exchange.SHARES)
            dealing = Dealing.of(reply, place, holdings.cohort, holdings.degree)
            holdings.dealings[place] = dealing

        refused = self._collect(Exchange.SHARES, replies, take)
        for place in holdings.close_dealing():
            refused[self._client(place)] = "too few of its holders dealt shares"
        self._need_cohort(len(holdings.dealings), "dealt shares")
        return refused

    def masked_requests(self) -> dict[int, Message]:
        """Return the third messages: to every client the shares that are meant for it."""
        head = self._round.begin(Exchange.MASKED)
        return {
            self._client(place): head | self._holdings.shares_for(place)
            for place in self._holdings.dealings
        }

    def collect_masked(self, replies: Mapping[int, tuple[Fields, Any]]) -> Refused:
        """Add up the masked vectors of those whose masks can be removed."""
        holdings = self._holdings

        def take(place: int, reply: tuple[Fields, Any]) -> None:
            fields, vector = reply
            self._round.check(fields, Exchange.MASKED)
            require(place in holdings.dealings, "it dealt no shares")
            spoiled = set(read_places(fields, "spoiled", holdings.cohort))
            known = spoiled <= holdings.senders[place]
            require(known, "'spoiled' names a client that dealt it nothing")
            right = isinstance(vector, np.ndarray) and vector.dtype == self._dtype
            wrong = f"its vector is not one of {self._total.size} values of {self._dtype}"
            require(right and vector.shape == self._total.shape, wrong)
            holdings.spoiled[place] = spoiled

        refused = self._collect(Exchange.MASKED, replies, take)
        self._blame(holdings.culprits())
        for place in holdings.close_masking():
            refused[self._client(place)] = "too few clients hold good shares of its secrets"
        for place in sorted(holdings.counted):
            self._total += replies[self._client(place)][1]
        self._need_cohort(len(holdings.counted), "sent masked vectors that can be unmasked")
        if self._roster is None and (alone := holdings.exposed()):
            # Only with a roster do clients know that the others are told the same.
            raise self._void(
                f"fewer than {holdings.threshold} clients hold good shares of client "
                f"{self._client(min(alone))}, which is not in the sum, and so many are needed"
            )
        if len(found := holdings.parts()) > 1:
            # The masks would come off each of several smaller sums.
            raise self._void(
                f"the clients left share masks only within {len(found)} parts of them, the "
                f"smallest of {min(map(len, found))}, and one part is needed"
            )
        return refused

    def consistency_requests(self) -> dict[int, Message]:
        """Return the messages of the check: to every client in the sum, who else is."""
        request = self._round.begin(Exchange.CONSISTENCY) | {"survivors": self._holdings.survivors}
        return dict.fromkeys(self.counted, request)

    def collect_consistency(self, replies: Mapping[int, Fields]) -> Refused:
        """Take the signatures under the set of survivors."""
        statement = survivors_statement(self._transcript, self._holdings.survivors)

        def take(place: int, reply: Fields) -> None:
            self._round.check(reply, Exchange.CONSISTENCY)
            require(place in self._holdings.counted, "it was not asked to sign")
            signature = read_bytes(reply, "signature", SIGNATURE_BYTES)
            name = self._cohort.members[place].name
            signed = self._roster is not None and self._roster.verify(name, signature, statement)
            require(signed, "it did not sign the survivors that it was told")
            self._signatures[place] = signature

        refused = self._collect(Exchange.CONSISTENCY, replies, take)
        needed = quorum(len(self._cohort))
        if len(self._signatures) < needed:
            signed = f"{len(self._signatures)} clients signed the survivors"
            raise self._void(f"{signed}, and {needed} are needed")
        return refused

    def unmask_requests(self) -> dict[int, Message]:
        """Return the last messages: to every client in the sum, who else is, and who signed it."""
        request = self._round.begin(Exchange.UNMASK) | {
            "survivors": self._holdings.survivors,
            "exposed": pack_places(sorted(self._holdings.exposed())),
        }
        if self._roster is not None:
            signers = sorted(self._signatures)[: quorum(len(self._cohort))]
            request["signers"] = pack_set(signers, len(self._cohort))
            request["signatures"] = b"".join(self._signatures[place] for place in signers)
        return dict.fromkeys(self.counted, request)

    def collect_unmask(self, replies: Mapping[int, Fields]) -> tuple[Ring, Refused]:
        """Recover the seeds and keys that are needed, and return the sum without masks."""
        recovery = Recovery(self._transcript, self._holdings, self._cohort.members)

        def take(place: int, reply: Fields) -> None:
            self._round.check(reply, Exchange.UNMASK)
            require(place in self._holdings.counted, "it was not asked to unmask")
            recovery.take(place, reply)

        refused = self._collect(Exchange.UNMASK, replies, take)
        try:
            plus, minus = recovery.masks_left()
        finally:
            self._blame(recovery.faults)
        crypto.apply_masks(self._total, plus=plus, minus=minus)
        return self._total, refused

    def _blame(self, faults: Mapping[int, str]) -> None:
        self.offences |= {self._client(place): fault for place, fault in faults.items()}

    def _client(self, place: int) -> int:
        return self._cohort.members[place].client

    def _collect(
        self, exchange: Exchange, replies: Mapping[int, Any], take: Callable[[int, Any], None]
    ) -> Refused:
        """Take the answers of the exchange that is due; return whose were refused and why.

        Clients are named by their ids in the first one, and by their places in the cohort then.
        """
        if self._due[:1] != [exchange]:
            raise RuntimeError(f"the exchange '{exchange}' is not due in this round")
        del self._due[0]
        refused: Refused = {}
        for client, reply in sorted(replies.items()):
            try:
                known = exchange is Exchange.KEYS or client in self._cohort.places
                require(known, "it sent no keys")
                take(self._cohort.places.get(client, client), reply)
            except RefusalError as reason:
                refused[client] = str(reason)
        self.refused |= refused
        return refused

    def _void(self, reason: str) -> VoidRoundError:
        self._due.clear()
        return VoidRoundError(reason)

    def _need_cohort(self, present: int, what: str) -> None:
        if present < self._min_cohort:
            raise self._void(f"{present} clients {what}, and {self._min_cohort} are needed")
