"""A whole round in one process, with holes and tampering where a test wants them."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fedau_flwr.secure import (
    Exchange,
    Message,
    RefusalError,
    RoundId,
    SecureClient,
    SecureRound,
    Topology,
)
from fedau_flwr.wire.fixed_point import Ring

ROUND = RoundId("run", 1, 1)
Tamper = Callable[[Exchange, str, int, Message], Message]


def untouched(exchange: Exchange, way: str, client: int, message: Message) -> Message:
    return message


@dataclass
class Outcome:
    total: Ring
    counted: frozenset[int]
    refused: dict[int, str] = field(default_factory=dict)
    masked: dict[int, Ring] = field(default_factory=dict)
    replies: dict[Exchange, dict[int, Message]] = field(default_factory=dict)


def run_round(
    vectors: Mapping[int, Ring],
    *,
    lost: Mapping[int, Exchange] | None = None,
    round_id: RoundId = ROUND,
    min_cohort: int = 2,
    topology: Topology | None = None,
    tamper: Tamper = untouched,
    clients: Mapping[int, SecureClient] | None = None,
    seed: int = 0,
    watch_state: Callable[[Exchange, int, bytes], None] = lambda exchange, client, state: None,
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
        rng=random.Random(seed),
    )
    clients = clients or {client: SecureClient(client, min_cohort=min_cohort) for client in vectors}
    states = {client: secure.state() for client, secure in clients.items()}
    outcome = Outcome(np.zeros_like(first), frozenset())
    gone: set[int] = set()

    def ask(exchange: Exchange, requests: Mapping[int, Message]) -> dict[int, Message]:
        replies = {}
        for client, request in requests.items():
            if client in gone or lost.get(client) is exchange:
                gone.add(client)
                continue
            secure = SecureClient(client, min_cohort=min_cohort, state=states[client])
            try:
                reply = answer(
                    secure, exchange, tamper(exchange, "to", client, dict(request)), client
                )
            except RefusalError as reason:
                outcome.refused[client] = str(reason)
                gone.add(client)
                continue
            states[client] = secure.state()
            watch_state(exchange, client, states[client])
            replies[client] = tamper(exchange, "from", client, reply)
        outcome.replies[exchange] = replies
        return replies

    def answer(secure: SecureClient, exchange: Exchange, request: Message, client: int) -> Message:
        if exchange is Exchange.KEYS:
            return secure.offer_keys(request)
        if exchange is Exchange.SHARES:
            return secure.deal_shares(request)
        if exchange is Exchange.UNMASK:
            return secure.unmask(request)
        secure.accept_shares(request)
        reply, outcome.masked[client] = secure.mask(vectors[client])
        return reply

    first_request = server.keys_request()
    outcome.refused |= server.collect_keys(
        ask(Exchange.KEYS, dict.fromkeys(vectors, first_request))
    )
    outcome.refused |= server.collect_shares(ask(Exchange.SHARES, server.shares_requests()))
    replies = ask(Exchange.MASKED, server.masked_requests())
    outcome.refused |= server.collect_masked(
        {client: (reply, outcome.masked[client]) for client, reply in replies.items()}
    )
    outcome.total, refused = server.collect_unmask(ask(Exchange.UNMASK, server.unmask_requests()))
    outcome.refused |= refused
    outcome.counted = server.counted
    return outcome


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
