"""Every message of the protocol, changed at random in both directions: 20,000 cases.

Whatever a client is asked, it answers or refuses, and a refusal changes nothing. Whatever a server
is answered, it leaves somebody out or the round is void. FEDAU_FUZZ_FACTOR multiplies the cases.
"""

import copy
import logging
import random

import numpy as np
import pytest
from flwr.app import (
    Array,
    ArrayRecord,
    ConfigRecord,
    Message,
    MessageType,
    MetricRecord,
)

from fedau_flwr import FedAU, _flower
from fedau_flwr.client.preparation import PREPARATION, Preparation
from fedau_flwr.secure import (
    Exchange,
    FixedPoint,
    RefusalError,
    SecureClient,
    SecureSum,
    VoidRoundError,
)
from fedau_flwr.secure.mod import RECORD, VECTOR
from fedau_flwr.wire.requests import Request
from tests.fuzzing import examples

from .mutation import mutated, odd_value
from .protocol import OPEN, Session, answer
from .test_attacks import CLIENTS, Victims, header, npz, train_content

PLACES = [(e, True) for e in Exchange] + [(e, False) for e in OPEN]

# Fields at their limits that chance rarely hits. What ended a run in 0.1, the bytes of an .npz file
# in place of a vector, is among the `odd_array`s and in test_attacks.
KEPT = [
    {"exchange": ["keys"]},
    {"run": "é" * 90},
    {"round": 2**63 - 1},
    {"names": "\ud800"},
]


@pytest.fixture(autouse=True)
def quiet():
    logger = logging.getLogger("flwr")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(level)


@pytest.mark.parametrize(("exchange", "signed"), PLACES)
def test_any_request_is_answered_or_refused_without_a_trace(exchange, signed):
    session = Session(exchange, signed=signed)
    state = session.clients[0].state()
    reasons: list[str] = []
    cases = [session.requests[0] | found for found in KEPT]
    rng = random.Random(f"{exchange} {signed}")
    cases += [mutated(rng, session.requests[0]) for _ in range(examples(1300))]
    for number, request in enumerate(cases):
        client = SecureClient(0, **session.options[0], state=state)
        try:
            answer(client, exchange, request)
        except RefusalError as refusal:
            reasons.append(str(refusal))
            assert client.state() == state, number
    assert len(reasons) > len(cases) // 2
    assert all(map(str.isprintable, reasons))


COLLECT = {
    Exchange.KEYS: lambda server, replies: server.collect_keys(replies),
    Exchange.SHARES: lambda server, replies: server.collect_shares(replies),
    Exchange.MASKED: lambda server, replies: server.collect_masked(replies),
    Exchange.CONSISTENCY: lambda server, replies: server.collect_consistency(replies),
    Exchange.UNMASK: lambda server, replies: server.collect_unmask(replies),
}
NEXT = {
    Exchange.KEYS: lambda server: server.shares_requests(),
    Exchange.SHARES: lambda server: server.masked_requests(),
    Exchange.MASKED: lambda server: (server.unmask_requests(), server.consistency_requests()),
    Exchange.CONSISTENCY: lambda server: server.unmask_requests(),
    Exchange.UNMASK: lambda server: server.counted,
}


def odd_vector(rng, vector):
    return rng.choice(
        [vector, vector[:-1], vector.astype(float), vector.reshape(2, 2), None, "x", b"", [1], 7]
    )


@pytest.mark.parametrize(("exchange", "signed"), PLACES)
def test_any_answer_costs_at_most_the_round(exchange, signed):
    session = Session(exchange, signed=signed)
    replies = {c: session.answer(exchange, c) for c in session.clients}
    rng = random.Random(f"server {exchange} {signed}")
    for _ in range(examples(850)):
        server, changed = copy.deepcopy(session.server), dict(replies)
        for client in rng.sample(range(5), rng.choice([1, 1, 2, 5])):
            if exchange is Exchange.MASKED:
                fields, vector = replies[client]
                changed[client] = (mutated(rng, fields), odd_vector(rng, vector))
            else:
                changed[client] = mutated(rng, replies[client])
        if rng.random() < 0.1:
            changed[99] = changed.pop(rng.randrange(5))
        try:
            refused = COLLECT[exchange](server, changed)
            NEXT[exchange](server)
        except VoidRoundError as void:
            refused = {0: str(void)}
        if isinstance(refused, tuple):
            _, refused = refused
        assert all(map(str.isprintable, refused.values()))


@pytest.mark.parametrize("exchange", OPEN)
def test_any_flower_message_gets_a_reply(exchange):
    """Through the mod: other records, types and configs as well."""
    victims = Victims()
    requests, _ = victims.run_until(exchange)
    node = victims.nodes[0]
    context = victims.contexts[node]
    kept = copy.deepcopy(context.state)
    rng = random.Random(f"mod {exchange}")
    for _ in range(examples(450)):
        content = train_content(1, Preparation(grid=FixedPoint()).to_config())
        fields = mutated(rng, dict(requests[node]), nested=False)
        content[RECORD] = ConfigRecord(fields)
        spoil_content(rng, content)
        message = Message(content, dst_node_id=node, message_type=MessageType.TRAIN)
        message.metadata.__dict__["_message_id"] = "1"
        context.state = copy.deepcopy(kept)
        reply = victims.app(message, context)
        if reply.has_error():
            # Ours, or `FedAUMod`'s about the rest of the message; never that of an exception.
            assert reply.error.code == _flower.ErrorCode.MOD_FAILED_PRECONDITION


def spoil_content(rng, content):
    """Change the rest of a train message."""
    kind = rng.randrange(12)
    if kind == 0:
        del content["config"]
    elif kind == 1:
        del content["arrays"]
    elif kind == 2:
        content["more"] = ConfigRecord({PREPARATION: "{}"})
    elif kind == 3:
        content["config"] = ConfigRecord(mutated(rng, dict(content["config"]), nested=False))
    elif kind == 4:
        deep = rng.choice(["[" * 5000, '{"norm": 1e999}', '{"seed": ' + "9" * 5000 + "}", "\x00"])
        content["config"][PREPARATION] = deep
    elif kind == 5:
        content["arrays"] = ArrayRecord({"x": odd_array(rng)})
    elif kind == 6:
        content["metrics"] = MetricRecord({"x": 1.0})
    elif kind == 7:
        content["config"].update(Request(2**40, "other").to_config())


def odd_array(rng):
    data = rng.choice([b"", npz(), header((2**50,)), header((4,)) + bytes(16), rng.randbytes(40)])
    stype = rng.choice(["numpy.ndarray", "torch.tensor", "", "numpy.ndarray\n"])
    shape = rng.choice([(4,), (), (2**62,), (2, 2)])
    return Array(rng.choice(["uint32", "float32", "object", ""]), shape, stype, data)


class Mutants(Victims):
    """Some of its clients' replies are changed at random, in an exchange chosen at random."""

    def __init__(self, rng):
        super().__init__()
        self.rng = rng

    def pull_messages(self, message_ids):
        replies = list(super().pull_messages(message_ids))
        for reply in replies:
            if self.rng.random() < 0.12:
                spoil_reply(self.rng, reply)
        return replies + ([replies[0]] if replies and self.rng.random() < 0.1 else [])


def spoil_reply(rng, reply):
    if reply.has_error():
        return
    content, kind = reply.content, rng.randrange(8)
    if kind == 0:
        content.pop(RECORD, None)
    elif kind == 1:
        content["gift"] = ConfigRecord({"x": 1})
    elif kind == 2 and VECTOR in content:
        content[VECTOR] = ArrayRecord({rng.choice(["masked", "x"]): odd_array(rng)})
    elif kind == 3:
        content[RECORD] = MetricRecord({"x": 1})
    elif kind == 4 and RECORD in content:
        content[RECORD]["hosted"] = odd_value(rng, nested=False)
    elif RECORD in content:
        content[RECORD] = ConfigRecord(mutated(rng, dict(content[RECORD]), nested=False))


def test_no_reply_ends_a_run():
    """Through strategies: whatever comes back, the round is over and the next one begins."""
    model = ArrayRecord({"x": Array(np.zeros(4, np.float32))})
    counted = 0
    for number in range(examples(40)):
        grid = Mutants(random.Random(f"run {number}"))
        strategy = FedAU(CLIENTS, summation=SecureSum(exchange_timeout=0.01))
        for server_round in (1, 2):
            messages = strategy.configure_train(server_round, model, ConfigRecord(), grid)
            replies = list(grid.send_and_receive(messages))
            after, _ = strategy.aggregate_train(server_round, replies)
            assert np.isfinite(after["x"].numpy()).all()
        counted += sum(last > 0 for last in strategy.ledger.counted.values())
    assert counted > 0
