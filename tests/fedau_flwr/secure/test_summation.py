"""The secure sum under real strategies and ClientApps, over Flower's wire format."""

import functools
import logging
import time

import numpy as np
import pytest
from flwr.app import (
    Array,
    ArrayRecord,
    ConfigRecord,
    Context,
    Error,
    Message,
    MessageType,
    MetricRecord,
    RecordDict,
)
from flwr.client import NumPyClient
from flwr.clientapp import ClientApp
from flwr.common.constant import ErrorCode

from fedau_flwr import (
    MIFA,
    Amplified,
    FedAU,
    FedAUMixin,
    FedAUMod,
    FedAWE,
    FedStale,
    FedVARP,
    FrequencyWeighting,
    MimiC,
)
from fedau_flwr.client.host import Host
from fedau_flwr.client.participant import Participant
from fedau_flwr.client.store import ContextStore
from fedau_flwr.secure import Exchange, FixedPoint, SecureSumMod, Topology
from fedau_flwr.secure import SecureSum as PatientSecureSum
from fedau_flwr.secure.mod import RECORD, VECTOR
from fedau_flwr.testing.in_process_grid import InProcessGrid
from fedau_flwr.weighting import FedAUWeighting
from fedau_flwr.wire.records import encode
from tests.fedau_flwr.client.test_host import Hosting

from .protocol import OPEN

CLIENTS = 6
STEP = FixedPoint().step


# Whoever does not answer at once in this process never will.
SecureSum = functools.partial(PatientSecureSum, exchange_timeout=0.02)


class Federation(InProcessGrid):
    """Loses what clients answer in the exchanges that a test names."""

    def __init__(self, app: ClientApp, clients: int = CLIENTS):
        super().__init__(app, clients)
        self.nodes = list(self.contexts)
        self.lost: dict[int, str] = {}
        self.replies: list[Message] = []

    def pull_messages(self, message_ids):
        replies = list(super().pull_messages(message_ids))
        self.replies += replies
        return [reply for reply in replies if not self._is_lost(reply)]

    def _is_lost(self, reply: Message) -> bool:
        lost = self.lost.get(self.nodes.index(reply.metadata.src_node_id))
        if reply.has_error() or lost is None:
            return False
        # Plain replies are lost where the masked vector would be.
        record = reply.content.config_records.get(RECORD, {"exchange": Exchange.MASKED})
        return record["exchange"] == lost


def target(context: Context) -> np.ndarray:
    return np.random.default_rng(int(context.node_config["partition-id"])).normal(0, 1, 5)


def client_app(*mods) -> ClientApp:
    app = ClientApp(mods=list(mods))

    @app.train()
    def train(message: Message, context: Context) -> Message:
        arrays = {name: value.numpy() for name, value in message.content["arrays"].items()}
        x = arrays["x"]
        arrays["x"] = (x - 0.3 * (x - target(context))).astype(x.dtype)
        arrays["steps"] = arrays["steps"] + 1
        content = RecordDict(
            {
                "arrays": encode(arrays),
                "metrics": MetricRecord({"num-examples": 17, "loss": 0.5}),
            }
        )
        return Message(content, reply_to=message)

    return app


def secure_app(**options) -> ClientApp:
    return client_app(SecureSumMod(**options), FedAUMod())


def initial() -> ArrayRecord:
    return encode({"x": np.zeros(5, np.float32), "steps": np.array(0)})


def run(strategy, grid, path, after=lambda number: None):
    """Run one round per entry of `path`: who is there, and whose answers are lost where."""
    model = initial()
    for number, (present, lost) in enumerate(path, 1):
        grid.silent = {node for i, node in enumerate(grid.nodes) if i not in present}
        grid.lost = lost
        messages = strategy.configure_train(number, model, ConfigRecord(), grid)
        replies = grid.send_and_receive(messages, timeout=10)
        model, metrics = strategy.aggregate_train(number, replies)
        assert metrics is None
        after(number)
    return {name: value.numpy() for name, value in model.items()}


EVERYONE = set(range(CLIENTS))
PATH = [
    (EVERYONE, {}),
    ({0, 1, 2, 3}, {}),
    ({1, 2, 3, 4, 5}, {4: Exchange.MASKED}),
    (EVERYONE, {0: Exchange.MASKED, 5: Exchange.MASKED}),
    (set(), {}),
    ({0, 3, 4, 5}, {}),
    (EVERYONE, {2: Exchange.MASKED}),
    (EVERYONE, {}),
]
STRATEGIES = {
    "FedAU": lambda **options: FedAU(CLIENTS, **options),
    "average participating": lambda **o: FedAU(CLIENTS, divisor="participants", **o),
    "MIFA": lambda **options: MIFA(CLIENTS, **options),
    "FedVARP": lambda **options: FedVARP(CLIENTS, **options),
    "FedStale": lambda **options: FedStale(CLIENTS, **options),
    "FedAWE": lambda **options: FedAWE(CLIENTS, **options),
    "MimiC": lambda **options: MimiC(CLIENTS, **options),
    "Amplified": lambda **options: Amplified(FedAU(CLIENTS, **options), period=3),
}


@pytest.mark.parametrize("name", [*STRATEGIES, "frequency"])
def test_secure_equals_plain_within_quantisation_with_lost_replies(name):
    make = STRATEGIES.get(name, STRATEGIES["FedAU"])
    mod = FedAUMod(FrequencyWeighting()) if name == "frequency" else FedAUMod()
    plain_strategy, secure_strategy = make(), make(summation=SecureSum())
    plain_grid = Federation(client_app(mod))
    secure_grid = Federation(client_app(SecureSumMod(), mod))
    plain = run(plain_strategy, plain_grid, PATH)
    secure = run(secure_strategy, secure_grid, PATH)
    # Eight rounds, in each of which six weights of up to eight are rounded by a step at most.
    assert np.abs(plain["x"] - secure["x"]).max() < 8 * 6 * STEP
    assert np.abs(plain["x"]).max() > 0.1
    assert secure["x"].dtype == np.float32
    assert secure["steps"] == 0
    assert secure_strategy.ledger.counted == plain_strategy.ledger.counted


def test_a_clients_memory_is_what_the_server_has_of_it():
    strategy = MIFA(CLIENTS, summation=SecureSum(fixed_point=FixedPoint(bits=10)))
    grid = Federation(secure_app())
    # The last round settles what the one before it has counted.
    run(strategy, grid, [*PATH, (EVERYONE, dict.fromkeys(range(3), Exchange.MASKED))])
    memories = []
    for node in grid.nodes:
        (last,) = ContextStore(grid.contexts[node]).load(strategy.ledger.training)
        counted = strategy.ledger.counted[node] == last.round
        memory = last.memory.get("last", {"x": np.zeros(5)})["x"]
        memories.append(memory + last.sent["update"]["x"] if counted else memory)
    # On a coarse grid every deviation would be a multiple of 1/64 over the number of clients.
    assert np.allclose(strategy.mean["x"], np.mean(memories, axis=0), atol=1e-6)


def test_flowers_own_start_drives_it_and_nothing_but_ring_elements_leaves_a_client():
    grid = Federation(secure_app())
    strategy = FedAU(CLIENTS, summation=SecureSum())
    result = strategy.start(grid, initial(), num_rounds=2, timeout=10)
    assert np.abs(result.arrays["x"].numpy()).max() > 0.1
    assert len(grid.replies) == 2 * 4 * CLIENTS
    allowed = {
        "keys": {"name", "share-key", "mask-key", "roster", "signature"},
        "shares": {"holders", "sealed", "seed-commitment", "commitments"},
        "masked": {"spoiled", "hosted"},
        "unmask": {"seed-shares", "key-shares", "pair-keys"},
    }
    for reply in grid.replies:
        fields = reply.content.config_records[RECORD]
        exchange = fields["exchange"]
        assert set(fields) == allowed[exchange] | {"exchange", "run", "attempt", "round"}
        others = set(reply.content) - {RECORD}
        assert others == ({VECTOR} if exchange == "masked" else set())
        if others:
            assert fields["hosted"] == []
            assert list(reply.content[VECTOR]) == ["masked"]
            assert reply.content[VECTOR]["masked"].numpy().dtype == np.uint32


@pytest.mark.parametrize("exchange", OPEN)
def test_dropouts_at_every_exchange(exchange):
    grid = Federation(secure_app())
    strategy = FedAU(CLIENTS, summation=SecureSum())
    secure = run(strategy, grid, [(EVERYONE, {0: exchange, 4: exchange})])
    counted = EVERYONE if exchange is Exchange.UNMASK else EVERYONE - {0, 4}
    targets = [target(grid.contexts[grid.nodes[i]]) for i in counted]
    expected = 0.3 * np.sum(targets, axis=0) / CLIENTS
    assert np.abs(secure["x"] - expected).max() < STEP * 2
    rounds = [strategy.ledger.counted[node] for node in grid.nodes]
    assert rounds == [int(i in counted) for i in range(CLIENTS)]
    dropouts = {f"dropouts_{one}": 2 * (one is exchange) for one in OPEN}
    assert strategy.summation.metrics() == dropouts


@pytest.mark.parametrize("exchange", OPEN)
def test_a_void_round_counts_nobody_and_the_next_one_works(exchange, caplog):
    grid = Federation(secure_app())
    strategy = FedAU(CLIENTS, summation=SecureSum())
    caplog.set_level(logging.WARNING)
    after_void = run(strategy, grid, [(EVERYONE, dict.fromkeys(range(4), exchange))])
    assert not after_void["x"].any()
    assert "Round 1 is void" in caplog.text
    assert set(strategy.ledger.counted.values()) == {0}
    grid.lost = {}
    messages = strategy.configure_train(2, initial(), ConfigRecord(), grid)
    model, _ = strategy.aggregate_train(2, grid.send_and_receive(messages))
    assert model["x"].numpy().any()
    assert set(strategy.ledger.counted.values()) == {2}


def test_a_client_behind_the_mod_never_answers_in_clear():
    grid = Federation(secure_app())
    run(FedAU(CLIENTS), grid, [(EVERYONE, {})])
    assert len(grid.replies) == CLIENTS
    for reply in grid.replies:
        assert "takes part in secure sums only" in reply.error.reason


def test_a_client_without_the_mod_is_told_apart(caplog):
    caplog.set_level(logging.WARNING)
    run(FedAU(CLIENTS, summation=SecureSum()), Federation(client_app(FedAUMod())), [(EVERYONE, {})])
    assert "0 clients sent keys" in caplog.text


def test_the_clients_own_minimum_holds_whatever_the_server_wants(caplog):
    caplog.set_level(logging.WARNING)
    grid = Federation(secure_app(min_cohort=7))
    after = run(FedAU(CLIENTS, summation=SecureSum(min_cohort=2)), grid, [(EVERYONE, {})])
    assert not after["x"].any()
    reasons = {reply.error.reason for reply in grid.replies if reply.has_error()}
    assert reasons == {"refused: a cohort of 6 is below this client's min_cohort=7"}


def test_neither_metrics_nor_groups_go_with_a_secure_sum():
    with pytest.raises(ValueError, match="must be empty with SecureSum"):
        FedAU(CLIENTS, groups={"a": 6}, summation=SecureSum())
    grid = Federation(client_app(SecureSumMod(), FedAUMod(report=("loss",))))
    after = run(FedAU(CLIENTS, summation=SecureSum()), grid, [(EVERYONE, {})])
    assert not after["x"].any()
    reasons = {reply.error.reason for reply in grid.replies if reply.has_error()}
    assert reasons == {
        "refused: a secure sum takes no metric or label, but the app has one to be sent"
    }


def test_hosts_send_the_sum_of_their_clients():
    app = ClientApp(mods=[SecureSumMod()])

    @app.train()
    def train(message: Message, context: Context) -> Message:
        def participant(client: int) -> Participant:
            own = Context(1, client, {}, RecordDict(), {})
            return Participant(ContextStore(own), FedAUWeighting())

        def training(client: int, model):
            x = model["x"] + np.float32(0.25 * client)
            return {**model, "x": x if client != 5 else x * np.nan}

        return Host(participant).reply(message, training)

    grid = Federation(app, clients=3)
    hosted = dict(zip(grid.nodes, ([1, 2], [3, 4, 5], [6]), strict=True))
    roster = Hosting(hosted.__getitem__)
    strategy = FedAU(6, divisor="participants", roster=roster, summation=SecureSum())
    after = run(strategy, grid, [({0, 1, 2}, {})])
    # Client 5 could not contribute, and its host says so.
    assert after["x"].tolist() == [np.float32(0.25 * (1 + 2 + 3 + 4 + 6) / 5)] * 5
    assert strategy.ledger.counted == {1: 1, 2: 1, 3: 1, 4: 1, 5: 0, 6: 1}


def test_clipping_is_logged_by_the_client_and_reported_when_asked_for(caplog):
    caplog.set_level(logging.INFO)
    summation = SecureSum(fixed_point=FixedPoint(value_range=0.125, bits=16), report_clipping=True)
    grid = Federation(secure_app())
    after = run(FedAU(CLIENTS, summation=summation), grid, [(EVERYONE, {})])
    beyond = [np.abs(0.3 * target(context)) > 0.125 for context in grid.contexts.values()]
    assert summation.clipped == pytest.approx(np.mean(beyond), abs=1e-4)
    assert np.abs(after["x"]).max() <= 0.125
    assert "are beyond value_range=0.125 and were clipped" in caplog.text
    assert "of all values were clipped" in caplog.text


def test_a_seed_makes_the_sum_repeat():
    def once(seed):
        coarse = SecureSum(fixed_point=FixedPoint(value_range=2.0, bits=6), seed=seed)
        return run(FedAU(CLIENTS, summation=coarse), Federation(secure_app()), PATH[:2])["x"]

    assert np.array_equal(once(1), once(1))
    assert not np.array_equal(once(1), once(2))


def test_more_clients_than_the_ring_holds_are_left_out(caplog):
    summation = SecureSum(fixed_point=FixedPoint(max_cohort=5))
    grid = Federation(secure_app())
    strategy = FedAU(CLIENTS, summation=summation)
    with caplog.at_level(logging.INFO):
        after = run(strategy, grid, [(EVERYONE, {})])
    assert after["x"].any()
    assert sorted(strategy.ledger.counted.values()) == [0, 1, 1, 1, 1, 1]
    assert "more than max_cohort=5 clients could overflow the sum" in caplog.text


@pytest.mark.parametrize(
    "options", [{"min_cohort": 1}, {"exchange_timeout": 0.0}, {"max_offences": -1}]
)
def test_impossible_settings_are_refused_by_name(options):
    with pytest.raises(ValueError, match=f"{next(iter(options))} is "):
        SecureSum(**options)


def test_a_sparse_graph_and_the_large_ring():
    summation = SecureSum(
        fixed_point=FixedPoint(bits=40, ring_bits=64), topology=Topology(min_degree=4)
    )
    grid = Federation(secure_app(), clients=12)
    after = run(FedAU(12, summation=summation), grid, [(set(range(12)), {3: Exchange.MASKED})])
    targets = [target(c) for n, c in grid.contexts.items() if n != grid.nodes[3]]
    assert np.allclose(after["x"], 0.3 * np.sum(targets, axis=0) / 12, atol=1e-6)


def test_evaluation_passes_through():
    app = secure_app()

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        return Message(RecordDict({"metrics": MetricRecord({"num-examples": 1})}), reply_to=message)

    grid = Federation(app)
    message = Message(
        RecordDict({"arrays": ArrayRecord({"x": Array(np.zeros(1))})}),
        dst_node_id=grid.nodes[0],
        message_type=MessageType.EVALUATE,
    )
    (reply,) = grid.send_and_receive([message])
    assert not reply.has_error()


class SlowLink(Federation):
    """Notes when it was last given messages."""

    pushed_at = 0.0

    def push_messages(self, messages):
        self.pushed_at = time.time()
        return super().push_messages(messages)


def test_train_messages_live_from_the_end_of_the_exchanges_before_them():
    grid = SlowLink(client_app(SecureSumMod(), FedAUMod()))
    strategy = FedAU(CLIENTS, summation=SecureSum(), round_timeout=5.0)
    messages = strategy.configure_train(1, initial(), ConfigRecord(), grid)
    assert len(messages) == CLIENTS
    for message in messages:
        assert message.metadata.created_at >= grid.pushed_at
        assert message.metadata.ttl == 5.0


def test_superlinks_own_reply_for_a_node_that_is_gone_is_no_rejection(caplog):
    class Gone(Federation):
        """Its SuperLink says by itself that the first node will not reply."""

        def pull_messages(self, message_ids):
            replies = list(super().pull_messages(message_ids))
            for reply in replies:
                if reply.metadata.src_node_id == self.nodes[0]:
                    reply.metadata.__dict__["_src_node_id"] = 1
                    reply.__dict__["_content"] = None
                    reply.__dict__["_error"] = Error(ErrorCode.NODE_UNAVAILABLE, "gone")
            return replies

    grid = Gone(client_app(SecureSumMod(), FedAUMod()))
    strategy = FedAU(CLIENTS, summation=SecureSum())
    with caplog.at_level(logging.INFO):
        messages = strategy.configure_train(1, initial(), ConfigRecord(), grid)
        strategy.aggregate_train(1, list(grid.send_and_receive(messages, timeout=1.0)))
    assert f"Round 1: {CLIENTS - 1} counted, 0 rejected, 1 without reply" in caplog.text


def algorithm_2(participation, cutoff=50):
    """Return the weight after a path of participation, step by step as in the paper."""
    intervals, running, weight = 0, 0, 1.0
    for took_part in participation:
        running += 1
        if took_part or running == cutoff:
            weight = running if intervals == 0 else (intervals * weight + running) / (intervals + 1)
            intervals, running = intervals + 1, 0
    return weight


FAILURES = {
    "void before training": dict.fromkeys(range(4), Exchange.SHARES),
    "void for want of vectors": dict.fromkeys(range(4), Exchange.MASKED),
    "void with all vectors there": dict.fromkeys(range(4), Exchange.UNMASK),
    "one vector lost": {2: Exchange.MASKED},
}


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("name", ["FedAU", "MIFA", "FedVARP"])
def test_the_next_weight_and_memory_are_right_after_a_failure(name, failure):
    strategy = STRATEGIES[name](summation=SecureSum())
    grid = Federation(secure_app())
    path = [(EVERYONE, {}), (EVERYONE, FAILURES[failure]), (EVERYONE, {}), ({0, 1, 2, 3}, {})]
    path += [(EVERYONE, FAILURES[failure]), (EVERYONE, {})]
    took_part = {node: [] for node in grid.nodes}

    def watch(number):
        for node, history in took_part.items():
            history.append(strategy.ledger.counted[node] == number)

    run(strategy, grid, path, watch)
    total = np.zeros(5)
    for place, node in enumerate(grid.nodes):
        expected = [True, "void" not in failure and place != 2, True, place < 4]
        expected += [expected[1], True]
        assert took_part[node] == expected
        (last,) = ContextStore(grid.contexts[node]).load(strategy.ledger.training)
        assert last.round == 6
        assert last.state.weight == pytest.approx(algorithm_2(expected[:5]), rel=1e-12)
        if strategy.transform.remembers:
            total += last.memory["last"]["x"] + last.sent["update"]["x"]
    if strategy.transform.remembers:
        assert np.allclose(strategy.mean["x"], total / CLIENTS, atol=1e-6)


def test_a_client_that_refuses_was_not_there():
    broken = {"round": 2, "client": 3}

    def sometimes(message, context, call_next):
        reply = call_next(message, context)
        number = message.content["config"]["server-round"]
        if number == broken["round"] and context.node_config["partition-id"] == broken["client"]:
            reply.content["arrays"]["x"] = Array(np.full(5, np.nan, np.float32))
        return reply

    app = client_app(SecureSumMod(), FedAUMod(), sometimes)
    grid = Federation(app)
    strategy = FedAU(CLIENTS, summation=SecureSum())
    run(strategy, grid, [(EVERYONE, {})] * 3)
    reasons = [reply.error.reason for reply in grid.replies if reply.has_error()]
    assert reasons == ["the app of this node failed; the node's own log says why"]
    for place, node in enumerate(grid.nodes):
        (last,) = ContextStore(grid.contexts[node]).load(strategy.ledger.training)
        assert last.state.weight == algorithm_2([True, place != 3])
    assert set(strategy.ledger.counted.values()) == {3}


class Legacy(FedAUMixin, NumPyClient):
    def __init__(self, context: Context):
        self.context = context

    def fit(self, parameters, config):
        x = parameters[0]
        x = (x - 0.3 * (x - target(self.context))).astype(x.dtype)
        return [x, parameters[1] + 1], 17, {"loss": 0.5}


def test_numpy_clients():
    app = ClientApp(
        lambda context: Legacy(context).with_context(context).to_client(), mods=[SecureSumMod()]
    )
    grid = Federation(app)
    strategy = FedAU(CLIENTS, numpy_clients=True, summation=SecureSum())
    plain = FedAU(CLIENTS)
    secure = run(strategy, grid, PATH)
    expected = run(plain, Federation(client_app(FedAUMod())), PATH)
    assert np.abs(secure["x"] - expected["x"]).max() < 8 * 6 * STEP
    assert secure["steps"] == 0
    assert strategy.ledger.counted == plain.ledger.counted
    # Neither the count nor the loss of the clients is in what they sent.
    for reply in grid.replies:
        assert set(reply.content) <= {RECORD, VECTOR}
