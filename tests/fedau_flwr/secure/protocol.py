"""A whole round in one process, with holes and tampering where a test wants them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from typing import Any

import numpy as np

from fedau_flwr.secure import (
    Exchange,
    Identity,
    Message,
    RefusalError,
    Roster,
    RoundId,
    SecureClient,
    SecureRound,
    Topology,
    graph,
)
from fedau_flwr.wire.fixed_point import Ring

ROUND = RoundId("run", 1, 1)
OPEN = [e for e in Exchange if e is not Exchange.CONSISTENCY]
"""The exchanges without a roster."""
SPARSE = Topology(min_degree=2)
"""Two holders for each, once `any_graph` has taken all bounds away."""
Tamper = Callable[[Exchange, str, int, Message], Message]


@cache
def identity(client: int) -> Identity:
    return Identity(f"client-{client}", sha256(str(client).encode()).digest())


def roster_of(clients: Iterable[int]) -> Roster:
    return Roster({identity(client).name: identity(client).public for client in clients})


def members(clients: Iterable[int], roster: Roster | None = None, **options: Any):
    """Return the options of clients, with identities if there is a roster."""
    return {
        client: options | ({"identity": identity(client), "roster": roster} if roster else {})
        for client in clients
    }


def any_graph(monkeypatch) -> None:
    """Let clients and server be content with any graph."""
    for name in ("SECRECY_BITS", "LIVENESS_BITS"):
        monkeypatch.setattr(graph, name, float("inf"))
    monkeypatch.setattr(graph, "_degree", graph._degree.__wrapped__)


def untouched(exchange: Exchange, way: str, client: int, message: Message) -> Message:
    return message


@dataclass
class Outcome:
    total: Ring
    counted: frozenset[int] = frozenset()
    refused: dict[int, str] = field(default_factory=dict)
    masked: dict[int, Ring] = field(default_factory=dict)
    requests: dict[Exchange, dict[int, Message]] = field(default_factory=dict)
    replies: dict[Exchange, dict[int, Message]] = field(default_factory=dict)
    offences: dict[int, str] = field(default_factory=dict)


def answer(secure: SecureClient, exchange: Exchange, request: Message) -> Message | None:
    """Return the answer to all but the request for a masked vector."""
    return {
        Exchange.KEYS: secure.offer_keys,
        Exchange.SHARES: secure.deal_shares,
        Exchange.MASKED: secure.accept_shares,
        Exchange.CONSISTENCY: secure.sign_survivors,
        Exchange.UNMASK: secure.unmask,
    }[exchange](request)


def run_round(
    vectors: Mapping[int, Ring],
    *,
    lost: Mapping[int, Exchange] | None = None,
    round_id: RoundId = ROUND,
    min_cohort: int = 2,
    topology: Topology | None = None,
    tamper: Tamper = untouched,
    states: Mapping[int, bytes] | None = None,
    roster: Roster | None = None,
    watch_state: Callable[[Exchange, int, bytes], None] = lambda exchange, client, state: None,
    outcome: Outcome | None = None,
) -> Outcome:
    """Run one round; `lost` clients vanish before they answer an exchange.

    `tamper` sees every message, `way` being "to" or "from" the client. Clients are rebuilt from
    their state for every message, as in a deployment.
    """
    lost = lost or {}
    first = next(iter(vectors.values()))
    server = SecureRound(
        round_id,
        size=first.size,
        dtype=first.dtype,
        min_cohort=min_cohort,
        topology=topology,
        roster=roster,
    )
    options = members(vectors, roster, min_cohort=min_cohort, topology=topology)
    kept = dict(states or {})
    outcome = outcome or Outcome(np.zeros_like(first))
    outcome.offences = server.offences
    gone: set[int] = set()

    def ask(exchange: Exchange, requests: Mapping[int, Message]) -> dict[int, Any]:
        replies: dict[int, Any] = {}
        outcome.requests[exchange] = dict(requests)
        for client, request in requests.items():
            if client in gone or lost.get(client) is exchange:
                gone.add(client)
                continue
            secure = SecureClient(client, **options[client], state=kept.get(client))
            try:
                reply = answer(secure, exchange, tamper(exchange, "to", client, dict(request)))
                if exchange is Exchange.MASKED:
                    reply, outcome.masked[client] = secure.mask(vectors[client])
            except RefusalError as reason:
                outcome.refused[client] = str(reason)
                gone.add(client)
                continue
            kept[client] = secure.state()
            watch_state(exchange, client, kept[client])
            replies[client] = tamper(exchange, "from", client, reply)
        outcome.replies[exchange] = replies
        return replies

    keys = dict.fromkeys(vectors, server.keys_request())
    outcome.refused |= server.collect_keys(ask(Exchange.KEYS, keys))
    outcome.refused |= server.collect_shares(ask(Exchange.SHARES, server.shares_requests()))
    replies = ask(Exchange.MASKED, server.masked_requests())
    outcome.refused |= server.collect_masked(
        {client: (reply, outcome.masked[client]) for client, reply in replies.items()}
    )
    if roster is not None:
        signed = ask(Exchange.CONSISTENCY, server.consistency_requests())
        outcome.refused |= server.collect_consistency(signed)
    outcome.total, refused = server.collect_unmask(ask(Exchange.UNMASK, server.unmask_requests()))
    outcome.refused |= refused
    outcome.counted = server.counted
    return outcome


class Session:
    """Clients 0…n-1 and an honest server, stopped before an exchange of the test's choice."""

    def __init__(
        self,
        until: Exchange,
        size: int = 5,
        *,
        round_id: RoundId = ROUND,
        signed: bool = False,
        topology: Topology | None = None,
        **hashes: bytes,
    ) -> None:
        self.roster = roster_of(range(size)) if signed else None
        options = {"roster": self.roster, "topology": topology, **hashes}
        self.server = SecureRound(round_id, size=4, min_cohort=2, **options)
        self.options = members(range(size), self.roster, min_cohort=3, topology=topology)
        self.clients = {c: SecureClient(c, **self.options[c]) for c in range(size)}
        self.requests: dict[int, Message] = {}
        self.replies: dict[int, Any] = dict.fromkeys(range(size))
        for exchange in Exchange if signed else OPEN:
            self.requests = self.next_requests(exchange)
            if exchange is until:
                break
            self.replies = {c: self.answer(exchange, c) for c in self.requests}

    def answer(self, exchange: Exchange, client: int) -> Any:
        reply = answer(self.clients[client], exchange, self.requests[client])
        if exchange is Exchange.MASKED:
            return self.clients[client].mask(np.arange(4, dtype=np.uint32) + client)
        return reply

    def next_requests(self, exchange: Exchange) -> dict[int, Message]:
        server, last = self.server, self.replies
        if exchange is Exchange.KEYS:
            return dict.fromkeys(self.clients, server.keys_request())
        if exchange is Exchange.SHARES:
            server.collect_keys(last)
            return server.shares_requests()
        if exchange is Exchange.MASKED:
            server.collect_shares(last)
            return server.masked_requests()
        if exchange is Exchange.CONSISTENCY:
            server.collect_masked(last)
            return server.consistency_requests()
        if self.roster is not None:
            server.collect_consistency(last)
        else:
            server.collect_masked(last)
        return server.unmask_requests()

    def ask(self, exchange: Exchange, request: Message, client: int = 0) -> Any:
        return answer(self.clients[client], exchange, request)


def ring_vectors(
    ids: Sequence[int], size: int, dtype: type = np.uint32, seed: int = 0
) -> dict[int, Ring]:
    rng = np.random.default_rng(seed)
    top = np.iinfo(dtype).max
    return {client: rng.integers(0, top, size, dtype=dtype, endpoint=True) for client in ids}


def plain_sum(vectors: Mapping[int, Ring], clients: frozenset[int] | set[int]) -> Ring:
    return np.sum(
        [vectors[client] for client in clients], axis=0, dtype=next(iter(vectors.values())).dtype
    )
