"""Attacks on whole clients, through their mods and Flower messages."""

import copy
import io
import json
import logging

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MessageType, RecordDict
from flwr.clientapp import ClientApp

from fedau_flwr import FedAU, FedAUMod
from fedau_flwr.client.preparation import PREPARATION, Preparation
from fedau_flwr.client.state_directory import StateDirectory
from fedau_flwr.secure import (
    Exchange,
    FixedPoint,
    RefusalError,
    RoundId,
    SecureRound,
    SecureSum,
    SecureSumMod,
)
from fedau_flwr.secure.answered import record_exchange
from fedau_flwr.secure.app_reply import APP_FAILED
from fedau_flwr.secure.digests import config_digest, model_digest
from fedau_flwr.secure.message import pack_set
from fedau_flwr.secure.mod import RECORD, VECTOR
from fedau_flwr.testing.in_process_grid import InProcessGrid
from fedau_flwr.wire.records import encode
from fedau_flwr.wire.requests import Refusal, Request

from .protocol import OPEN, ROUND, plain_sum, ring_vectors, run_round
from .test_secrecy import secrets_in

CLIENTS = 5
# The points of small order and their other encodings, for which every shared secret is zero.
LOW_ORDER = [
    bytes(32),
    bytes([1]) + bytes(31),
    bytes.fromhex("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"),
    bytes.fromhex("5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157"),
    *(((2**255 - 19) + offset).to_bytes(32, "little") for offset in (-1, 0, 1)),
    bytes(31) + bytes([0x80]),
]


def train_content(number, config):
    """Return what a client is asked to train."""
    request = Request(number, "training").to_config()
    content = RecordDict({"arrays": encode({"x": np.zeros(4, np.float32)})})
    content["config"] = ConfigRecord({**request, **config})
    return content


ASKED = train_content(1, Preparation(grid=FixedPoint()).to_config())


def terms_of(content):
    return {"model": model_digest(content), "config": config_digest(content, False)}


TERMS = terms_of(ASKED)


class Victims(InProcessGrid):
    """Clients behind their mods, and a server of the test's choice."""

    def __init__(self, state_dir=None, **options):
        self.seen_by_app = []
        app = ClientApp(mods=[SecureSumMod(**options), FedAUMod()])

        @app.train()
        def train(message: Message, context: Context) -> Message:
            self.seen_by_app.append(repr(context))
            x = message.content["arrays"]["x"].numpy()
            return Message(RecordDict({"arrays": encode({"x": x + 0.25})}), reply_to=message)

        node_config = {"fedau-state-dir": str(state_dir)} if state_dir else {}
        super().__init__(app, CLIENTS, node_config=node_config)
        self.nodes = list(self.contexts)

    def keys(self, attempt=1, number=1):
        """Return a request for keys."""
        return RoundId("training", attempt, number).begin(Exchange.KEYS) | TERMS

    def ask(self, node, fields, context=None, preparation=None, number=None):
        """Send one message to one client, maybe with another copy of its context."""
        content = RecordDict({RECORD: ConfigRecord(dict(fields))})
        if fields.get("exchange") == Exchange.MASKED:
            asked = preparation or Preparation(grid=FixedPoint())
            config = asked if isinstance(asked, dict) else asked.to_config()
            content = train_content(number or int(fields["round"]), config)
            content[RECORD] = ConfigRecord(dict(fields))
        message = Message(content, dst_node_id=node, message_type=MessageType.TRAIN)
        message.metadata.__dict__["_message_id"] = "1"
        return self.app(message, context or self.contexts[node])

    def fields(self, replies):
        return {n: dict(r.content[RECORD]) for n, r in replies.items() if not r.has_error()}

    def run_until(self, exchange, number=1, terms=TERMS):
        """Run an honest round up to `exchange`; return its requests and the replies so far."""
        server = SecureRound(RoundId("training", 1, number), size=4, **terms)
        replies = {}
        requests = dict.fromkeys(self.nodes, server.keys_request())
        for due in OPEN:
            if due is exchange:
                break
            replies = {node: self.ask(node, requests[node]) for node in self.nodes}
            answers = self.fields(replies)
            if due is Exchange.KEYS:
                server.collect_keys(answers)
                requests = server.shares_requests()
            elif due is Exchange.SHARES:
                server.collect_shares(answers)
                requests = server.masked_requests()
            else:
                vectors = {n: r.content[VECTOR]["masked"].numpy() for n, r in replies.items()}
                server.collect_masked({n: (answers[n], v) for n, v in vectors.items()})
                requests = server.unmask_requests()
        return requests, replies


def other_story(request):
    """Return an unmask request that declares two more clients dead."""
    alive = int.from_bytes(request["survivors"], "little") & 0b00111
    return {**request, "survivors": bytes([alive])}


@pytest.mark.parametrize("exchange", OPEN)
def test_two_processes_with_the_same_context_give_one_answer(exchange, tmp_path):
    victims = Victims(tmp_path)
    requests, _ = victims.run_until(exchange)
    node = victims.nodes[0] if exchange is not Exchange.UNMASK else min(victims.nodes)
    twin = copy.deepcopy(victims.contexts[node])
    assert not victims.ask(node, requests[node]).has_error()
    again = requests[node] if exchange is not Exchange.UNMASK else other_story(requests[node])
    reply = victims.ask(node, again, twin)
    assert reply.has_error()
    # Before the second masked vector leaves, the weighting has refused to train again.
    reason = APP_FAILED if exchange is Exchange.MASKED else "already answered"
    assert reason in reply.error.reason


def test_a_restarted_client_does_not_begin_a_round_again(tmp_path):
    victims = Victims(tmp_path)
    victims.run_until(Exchange.UNMASK)
    node = victims.nodes[0]
    blank = copy.deepcopy(victims.contexts[node])
    blank.state.clear()
    assert "already answered" in victims.ask(node, victims.keys(), blank).error.reason
    assert not victims.ask(node, victims.keys(number=2), blank).has_error()


def test_the_record_of_answers_only_moves_on(tmp_path):
    store = StateDirectory(tmp_path / "new", "client-0")
    places = [(1, 1), (1, 2), (2, 1), (2, 10**17)]
    for attempt, number in places:
        for exchange in Exchange:
            record_exchange(store, RoundId("run", attempt, number), exchange)
    for attempt, number in places:
        for exchange in Exchange:
            with pytest.raises(RefusalError, match="already answered"):
                record_exchange(store, RoundId("run", attempt, number), exchange)
    (store.folder("run.2") / "answered").write_text("rubbish")
    with pytest.raises(Refusal, match="cannot be read"):
        record_exchange(store, RoundId("run", 2, 10**18), Exchange.KEYS)
    (tmp_path / "file").touch()
    with pytest.raises(Refusal, match="must be a directory that can be written to"):
        record_exchange(StateDirectory(tmp_path / "file", "client-0"), ROUND, Exchange.KEYS)


def test_no_round_is_trained_for_under_the_name_of_another():
    """What was answered is known by the round of the shares, what is trained by the config's."""
    victims = Victims()
    requests, _ = victims.run_until(Exchange.MASKED, number=7)
    node = victims.nodes[0]
    reply = victims.ask(node, requests[node], number=1)
    assert "belongs to another round than its shares" in reply.error.reason
    assert not victims.seen_by_app


@pytest.mark.parametrize("exchange", OPEN)
def test_messages_of_the_last_round_are_refused_in_this_one(exchange):
    victims = Victims()
    old, _ = victims.run_until(exchange)
    # A round has begun once its keys were offered.
    victims.run_until(Exchange.SHARES if exchange is Exchange.KEYS else exchange, number=2)
    for node in victims.nodes:
        assert victims.ask(node, old[node]).has_error()


def test_a_later_attempt_at_the_same_round_ends_the_earlier_one():
    victims = Victims()
    requests, _ = victims.run_until(Exchange.UNMASK)
    node = victims.nodes[0]
    assert not victims.ask(node, victims.keys(attempt=2, number=2)).has_error()
    reply = victims.ask(node, requests[node])
    assert reply.error.reason == (
        "refused: the exchange 'unmask' is not due: this client's round is 'keys offered'"
    )
    for attempt in (1, 2):
        assert "already begun" in victims.ask(node, victims.keys(attempt)).error.reason


def test_shares_of_another_cohort_of_the_same_round_do_not_open():
    one, other = Victims(), Victims()
    requests, _ = one.run_until(Exchange.MASKED)
    strangers, _ = other.run_until(Exchange.MASKED)
    node = one.nodes[0]
    mixed = {**requests[node], "sealed": strangers[node]["sealed"]}
    assert "shares of 0 of 4 clients are authentic" in one.ask(node, mixed).error.reason


@pytest.mark.parametrize("point", LOW_ORDER)
@pytest.mark.parametrize("key", ["share-key", "mask-key"])
def test_a_key_of_low_order_costs_only_its_sender_the_round(key, point):
    def tamper(exchange, way, client, message):
        bad = exchange is Exchange.KEYS and way == "from" and client == 2
        return {**message, key: point} if bad else message

    vectors = ring_vectors(range(1, 6), 3)
    outcome = run_round(vectors, tamper=tamper)
    assert outcome.counted == {1, 3, 4, 5}
    assert outcome.refused == {2: "a public key is not a valid X25519 key"}
    assert np.array_equal(outcome.total, plain_sum(vectors, outcome.counted))


@pytest.mark.parametrize("point", LOW_ORDER)
@pytest.mark.parametrize(("start", "due"), [(8, Exchange.SHARES), (40, Exchange.MASKED)])
def test_a_client_takes_no_key_of_low_order_from_the_server(start, due, point):
    victims = Victims()
    requests, _ = victims.run_until(Exchange.SHARES)
    node = min(victims.nodes)
    cohort = bytearray(requests[node]["cohort"])
    cohort[72 + start : 72 + start + 32] = point
    reply = victims.ask(node, {**requests[node], "cohort": bytes(cohort)})
    if due is Exchange.MASKED:
        # A mask key is used one message later. The low one's owner dealt nothing of its own.
        assert not reply.has_error()
        request = {**RoundId("training", 1, 1).begin(due), "dealers": pack_set(range(5), 5)}
        request |= dict.fromkeys(("senders", "numbers", "sealed", "commitments"), b"")
        reply = victims.ask(node, request)
        assert "shares of 0 of 0 clients" in reply.error.reason
    else:
        assert reply.error.reason == "refused: a public key is not a valid X25519 key"
        assert not victims.ask(node, requests[node]).has_error()


def test_huge_and_impossible_fields_are_refused():
    victims = Victims()
    requests, _ = victims.run_until(Exchange.SHARES)
    node = victims.nodes[0]
    huge = {**requests[node], "cohort": bytes(72 * 20_001)}
    assert "between 2 and 20000 clients" in victims.ask(node, huge).error.reason
    head = victims.keys(number=2)
    for field in (
        {"run": "../../escape"},
        {"run": ""},
        {"run": 5},
        {"round": 0},
        {"round": -1},
        {"attempt": 0},
        {"round": 1.5},
        {"exchange": "everything"},
        {"exchange": 3},
        {"model": b""},
        {"config": "x" * 32},
    ):
        assert victims.ask(node, head | field).error.reason.startswith("refused: ")
    assert not victims.ask(node, requests[node]).has_error()


@pytest.mark.parametrize(
    "fields",
    [
        {"noise_std": float("nan")},
        {"noise_std": -1.0},
        {"noise_std": None},
        {"noise_std": "1"},
        {"norm": float("inf")},
        {"norm": 0.0},
        {"norm": "1"},
        {"bit_std": float("nan")},
        {"seed": "x"},
        {"seed": -1},
        {"unknown": 1},
        {"grid": {"value_range": float("nan")}},
        {"grid": {"bits": 60}},
        {"grid": {"ring_bits": "32"}},
        {"grid": [1]},
    ],
)
def test_an_impossible_preparation_is_refused_before_training(fields):
    victims = Victims()
    text = json.dumps({"grid": {"value_range": 8.0}, **fields})
    terms = terms_of(train_content(1, {PREPARATION: text}))
    requests, _ = victims.run_until(Exchange.MASKED, terms=terms)
    node = victims.nodes[0]
    reply = victims.ask(node, requests[node], preparation={PREPARATION: text})
    assert reply.has_error()
    assert "must be what" in reply.error.reason
    assert victims.seen_by_app == []


def secrets_of(context):
    """Return every secret in a client's state, as hexadecimal and as Python shows bytes."""
    state = context.state[RECORD]["state"] if RECORD in context.state else b"{}"
    found = secrets_in(state)
    return found | {repr(bytes.fromhex(text))[2:-1] for text in found}


def test_no_secret_in_logs_errors_or_the_apps_sight(caplog):
    caplog.set_level(logging.DEBUG)
    victims = Victims()
    secrets, errors = set(), []
    for exchange in OPEN:
        fresh = Victims()
        requests, _ = fresh.run_until(exchange)
        for node in fresh.nodes:
            secrets |= secrets_of(fresh.contexts[node])
            for wrong in Exchange:
                for change in ({}, {"senders": b"\x01"}, {"survivors": b"\x01"}):
                    bad = {**requests[node], "exchange": wrong.value, **change}
                    if wrong is exchange and not change:
                        continue
                    reply = fresh.ask(node, bad)
                    if reply.has_error():
                        errors.append(reply.error.reason)
        victims.seen_by_app += fresh.seen_by_app
    assert len(secrets) > 50
    assert len(errors) > 40
    assert len(victims.seen_by_app) >= CLIENTS
    for text in (caplog.text, *errors, *victims.seen_by_app):
        assert not any(secret in text for secret in secrets)


def test_the_state_outlives_an_app_that_fails():
    victims = Victims()
    requests, _ = victims.run_until(Exchange.MASKED)
    node = victims.nodes[0]

    def broken(message, context):
        assert RECORD not in context.state
        raise ZeroDivisionError

    content = train_content(1, Preparation(grid=FixedPoint()).to_config())
    content[RECORD] = ConfigRecord(dict(requests[node]))
    message = Message(content, dst_node_id=node, message_type=MessageType.TRAIN)
    reply = SecureSumMod()(message, victims.contexts[node], broken)
    assert reply.error.reason == APP_FAILED
    assert RECORD in victims.contexts[node].state


def npz():
    file = io.BytesIO()
    np.savez(file, masked=np.zeros(4, np.uint32))
    return file.getvalue()


def header(shape):
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        file, {"descr": "<u4", "fortran_order": False, "shape": shape}
    )
    return file.getvalue()


def rubbish(content, stype, data):
    content[VECTOR]["masked"] = Array("uint32", (4,), stype, data)


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content[RECORD].update(hosted=7),
        lambda content: content[RECORD].update(hosted=[1, 1]),
        lambda content: content[RECORD].pop("hosted"),
        lambda content: content.pop(VECTOR),
        lambda content: content[VECTOR].pop("masked"),
        lambda content: rubbish(content, "numpy.ndarray", b""),
        lambda content: rubbish(content, "numpy.ndarray", b"\x93NUMPY"),
        lambda content: rubbish(content, "torch.tensor", b"x"),
        lambda content: content[RECORD].update(spoiled=["x"]),
        lambda content: content[RECORD].update(hosted=[2**40]),
        lambda content: rubbish(content, "numpy.ndarray", npz()),
        lambda content: rubbish(content, "numpy.ndarray", header((2**50,))),
        lambda content: rubbish(content, "numpy.ndarray", header((4,)) + bytes(15)),
        lambda content: content[RECORD].update(round="1"),
    ],
)
def test_rubbish_from_one_client_costs_only_that_client_the_round(change):
    grid = Victims()
    strategy = FedAU(CLIENTS, summation=SecureSum(exchange_timeout=0.5))
    model = ArrayRecord({"x": Array(np.zeros(4, np.float32))})
    messages = strategy.configure_train(1, model, ConfigRecord(), grid)
    replies = list(grid.send_and_receive(messages))
    offender = replies[1].metadata.src_node_id
    change(replies[1].content)
    after, _ = strategy.aggregate_train(1, replies)
    assert after["x"].numpy().tolist() == [np.float32(0.25 * 4 / 5)] * 4
    assert strategy.ledger.counted == {node: int(node != offender) for node in grid.nodes}


def test_a_client_knows_its_own_id_whatever_the_message_is_addressed_to():
    """Under another's id, it would hold shares in the other's place and mask with other signs."""
    victims = Victims()
    requests, _ = victims.run_until(Exchange.SHARES)
    node, other = sorted(victims.nodes)[:2]
    without = {**requests[node], "cohort": requests[node]["cohort"][72:], "degree": 3}
    content = RecordDict({RECORD: ConfigRecord(without)})
    message = Message(content, dst_node_id=other, message_type=MessageType.TRAIN)
    message.metadata.__dict__["_message_id"] = "1"
    reply = victims.app(message, victims.contexts[node])
    assert reply.error.reason == "refused: the cohort leaves this client out"
