"""What a secure round costs the server and one client as the cohort grows, with and without roster.

The server and one client do all of their work on whole vectors, and are timed alone. The other
clients do theirs on keys and shares, so that everything that reaches the server is real but for
their vectors, for which one vector stands: adding it takes as long, and the sum is not looked at.
Signatures are verified by the server and the one client. One client in fifty vanishes after it
dealt shares.
"""

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from math import log
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MessageType, RecordDict
from flwr.clientapp import ClientApp
from numpy.typing import NDArray

from fedau_flwr import _flower
from fedau_flwr.secure import Exchange, Identity, Roster, RoundId, SecureClient, SecureRound
from fedau_flwr.testing.in_process_grid import InProcessGrid
from simulations.bench.report import Row
from simulations.bench.side_by_side import Say

ROUND = RoundId("bench", 1, 1)
ONE = 0
"""The client that is timed."""


@dataclass
class Cost:
    """Of one round."""

    server_seconds: float = 0.0
    client_seconds: float = 0.0
    client_bytes: int = 0


class Trusting(Roster):
    """Of a client that nobody times: its signatures are real, and it takes those of others."""

    def verify(self, name: str, signature: bytes, statement: bytes) -> bool:
        """Say yes."""
        return True


def scale_rows(cohorts: Sequence[int], parameters: int, say: Say) -> list[Row]:
    """Measure rounds of all sizes; the last two are those that the goals name."""
    costs: dict[tuple[int, bool], Cost] = {}
    for cohort in cohorts:
        for signed in (False, True):
            say(f"a secure round of {cohort:,} clients {'with' if signed else 'without'} a roster")
            costs[cohort, signed] = measure_round(cohort, parameters, signed=signed)
    details = {
        f"{cohort}{' with a roster' if signed else ''}": vars(cost)
        for (cohort, signed), cost in costs.items()
    }
    many, hundred = cohorts[-1], min(cohorts, key=lambda cohort: abs(cohort - 100))
    plain, roster = costs[many, False], costs[many, True]
    few, roster_few = costs[hundred, False], costs[hundred, True]
    vector = 4 * parameters
    growth = {
        f"{name}{' with a roster' if signed else ''}": _exponent(costs, cohorts, name, signed)
        for name in ("server_seconds", "client_seconds")
        for signed in (False, True)
    }
    return [
        Row("secure-server", plain.server_seconds, (many,), details | {"growth": growth}),
        Row("secure-client", 1e3 * plain.client_seconds, (many,)),
        Row("secure-overhead", plain.client_bytes / vector, (many,)),
        Row("roster-server", roster.server_seconds / plain.server_seconds, (many,)),
        Row("roster-client", roster.client_seconds / plain.client_seconds, (many,)),
        Row("roster-server-few", roster_few.server_seconds / few.server_seconds, (hundred,)),
        Row("roster-client-few", roster_few.client_seconds / few.client_seconds, (hundred,)),
        Row("roster-overhead", roster.client_bytes / vector, (many,)),
    ]


def _exponent(
    costs: Mapping[tuple[int, bool], Cost], cohorts: Sequence[int], name: str, roster: bool
) -> float:
    """Return a in cost ~ cohort^a, from the first size to the last."""
    first, last = (getattr(costs[cohort, roster], name) for cohort in (cohorts[0], cohorts[-1]))
    return float(log(last / first) / log(cohorts[-1] / cohorts[0]))


def measure_round(cohort: int, parameters: int, *, signed: bool) -> Cost:
    """Run one round, and return what it costs the server and one client."""
    InProcessGrid(ClientApp(), 0)  # makes this process one that may make messages
    identities = [Identity(f"c{n}", sha256(b"%d" % n).digest()) for n in range(cohort)]
    keys = {one.name: one.public for one in identities} if signed else {}
    roster, cost = (Roster(keys) if signed else None), Cost()
    server = SecureRound(ROUND, size=parameters, roster=roster)
    states: dict[int, bytes | None] = dict.fromkeys(range(cohort))
    vector = np.arange(parameters, dtype=np.uint32)
    silent = set(range(cohort - cohort // 50, cohort))

    def answer(client: int, exchange: Exchange, request: Any) -> Any:
        options: dict[str, Any] = {}
        if signed:
            known = Roster(keys) if client == ONE else Trusting(keys)
            options = {"identity": identities[client], "roster": known}
        secure = SecureClient(client, state=states[client], **options)
        reply = _answer(secure, exchange, request, vector if client == ONE else vector[:1])
        states[client] = secure.state()
        return reply

    def ask(exchange: Exchange, make: Callable[[], Mapping[int, Any]]) -> dict[int, Any]:
        requests = _timed(cost, "server_seconds", make)
        replies = {
            client: answer(client, exchange, request)
            for client, request in requests.items()
            if client != ONE and not (exchange is Exchange.MASKED and client in silent)
        }
        request = requests[ONE]
        replies[ONE] = _timed(cost, "client_seconds", lambda: answer(ONE, exchange, request))
        cost.client_bytes += _wire_bytes(replies[ONE])
        return replies

    def collect(step: Callable[[], Any]) -> None:
        _timed(cost, "server_seconds", step)

    first = ask(Exchange.KEYS, lambda: dict.fromkeys(range(cohort), server.keys_request()))
    collect(lambda: server.collect_keys(first))
    second = ask(Exchange.SHARES, server.shares_requests)
    collect(lambda: server.collect_shares(second))
    third = ask(Exchange.MASKED, server.masked_requests)
    masked = {client: (fields, third[ONE][1]) for client, (fields, _) in third.items()}
    collect(lambda: server.collect_masked(masked))
    if signed:
        fourth = ask(Exchange.CONSISTENCY, server.consistency_requests)
        collect(lambda: server.collect_consistency(fourth))
    last = ask(Exchange.UNMASK, server.unmask_requests)
    collect(lambda: server.collect_unmask(last))
    return cost


def _answer(
    secure: SecureClient, exchange: Exchange, request: Any, vector: NDArray[np.uint32]
) -> Any:
    if exchange is Exchange.MASKED:
        secure.accept_shares(request)
        return secure.mask(vector)
    answers: dict[Exchange, Callable[[Any], Any]] = {
        Exchange.KEYS: secure.offer_keys,
        Exchange.SHARES: secure.deal_shares,
        Exchange.CONSISTENCY: secure.sign_survivors,
        Exchange.UNMASK: secure.unmask,
    }
    return answers[exchange](request)


def _timed(cost: Cost, name: str, step: Callable[[], Any]) -> Any:
    gc.collect()
    start = time.perf_counter()
    result = step()
    setattr(cost, name, getattr(cost, name) + time.perf_counter() - start)
    return result


def _wire_bytes(reply: Any) -> int:
    """Return the size of an answer as Flower sends it."""
    fields, vector = reply if isinstance(reply, tuple) else (reply, None)
    content = RecordDict({"fedau-secure": ConfigRecord({**fields})})
    if vector is not None:
        content["fedau-secure.vector"] = ArrayRecord({"masked": Array(vector)})
    message = Message(content, dst_node_id=1, message_type=MessageType.TRAIN)
    return int(_flower.message_to_proto(message).ByteSize())
