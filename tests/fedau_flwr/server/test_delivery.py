"""The message after a round, where it is not seen by the formulas of the methods that need it."""

import numpy as np
import pytest
from flwr.app import ConfigRecord, Message, MessageType, RecordDict
from flwr.client import NumPyClient
from flwr.clientapp import ClientApp

from fedau_flwr import (
    AvailabilityGrid,
    FedAUMixin,
    FedAUMod,
    FedAWE,
    MimiC,
    SecureSumMod,
    SumStrategy,
    Trace,
    Transform,
    answer_identity,
)
from fedau_flwr.client.delivery import is_delivery
from fedau_flwr.client.store import ContextStore
from fedau_flwr.methods.fedau import WeightedUpdate
from fedau_flwr.wire.requests import DELIVERY
from tests.fedau_flwr.client.test_host import play_hosted
from tests.fedau_flwr.federation import Federation, record, towards, training_app, values

CLIENTS, ROUNDS = 4, 12
PATH = np.random.default_rng(5).random((ROUNDS, CLIENTS)) < 0.5
TARGETS = np.linspace(-1, 2, CLIENTS)


def play(grid, strategy, path=PATH):
    model = record(x=np.zeros(2), n=np.array(7))
    for t, here in enumerate(path, 1):
        grid.present = set(np.flatnonzero(here).tolist())
        model = grid.play(strategy, t, model)
    return values(model)


@pytest.mark.parametrize("kind", [FedAWE, MimiC])
def test_numpy_clients_get_it_too(kind):
    class Client(FedAUMixin, NumPyClient):
        def __init__(self, number):
            self.number = number

        def fit(self, parameters, config):
            x, n = parameters
            return [towards(TARGETS)(self.number, {"x": x}, 0)["x"], n + 1], 9, {}

    def client_fn(context):
        return Client(context.node_config["partition-id"]).with_context(context).to_client()

    expected = play(Federation(training_app(towards(TARGETS)), CLIENTS), kind(CLIENTS))
    app = ClientApp(client_fn=client_fn)
    found = play(Federation(app, CLIENTS), kind(CLIENTS, numpy_clients=True))
    np.testing.assert_array_equal(found["x"], expected["x"])
    assert found["n"] == expected["n"] == 7
    # The mod around an app of NumPyClients answers for them.
    plain = ClientApp(client_fn=lambda context: Plain(context).to_client(), mods=[FedAUMod()])
    found = play(Federation(plain, CLIENTS), kind(CLIENTS, numpy_clients=True))
    np.testing.assert_array_equal(found["x"], expected["x"])


class Plain(NumPyClient):
    def __init__(self, context):
        self.number = context.node_config["partition-id"]

    def fit(self, parameters, config):
        assert DELIVERY not in config
        x, n = parameters
        return [towards(TARGETS)(self.number, {"x": x}, 0)["x"], n], 9, {}


@pytest.mark.parametrize("kind", [FedAWE, MimiC])
def test_the_app_never_sees_it_and_the_reply_is_empty(kind):
    def train(client, arrays, server_round):
        trained.append((client, server_round))
        return towards(TARGETS)(client, arrays, server_round)

    trained = []
    grid = Federation(training_app(train), CLIENTS)
    play(grid, kind(CLIENTS))
    assert len(trained) == PATH.sum()
    deliveries = [message for message in grid.received if is_delivery(message)]
    assert len(deliveries) == PATH.sum()
    assert {m.metadata.message_type for m in deliveries} == {MessageType.TRAIN}
    assert all(not reply.content for reply in grid.replies)  # those to the last deliveries


@pytest.mark.parametrize("kind", [FedAWE, MimiC])
def test_hosts_say_who_has_got_it(kind):
    strategy = kind(9)
    path = np.random.default_rng(2).random((8, 9)) < 0.4
    play_hosted(strategy, 2, path, towards(np.linspace(-2, 2, 9)))
    assert not strategy.deliveries.waiting


def test_a_delivery_that_comes_too_late_is_refused_in_one_sentence():
    strategy = MimiC(1)
    grid = Federation(training_app(towards(TARGETS)), 1)
    play(grid, strategy, np.ones((3, 1), bool))
    late = next(message for message in grid.received if is_delivery(message))
    late = Message(late.content, late.metadata.dst_node_id, MessageType.TRAIN)
    (reply,) = grid.send_and_receive([late])
    assert reply.error.reason == (
        "fedau-delivery is 1, but the last round that it answered is 3: it comes too late to be of "
        "use."
    )
    grid.contexts[late.metadata.dst_node_id].state.clear()
    (reply,) = grid.send_and_receive([late])
    assert "but it has no state" in reply.error.reason


def test_a_client_that_refuses_is_not_asked_again(caplog):
    strategy = MimiC(1)
    grid = Federation(training_app(towards(TARGETS)), 1)
    model = record(x=np.zeros(2))
    messages = strategy.configure_train(1, model, ConfigRecord(), grid)
    replies = grid.send_and_receive(messages)
    next(iter(grid.contexts.values())).state.clear()
    strategy.aggregate_train(1, replies)
    assert "did not take what comes after a round: fedau-delivery is 1" in caplog.text
    assert not strategy.deliveries.waiting
    assert not strategy.deliveries.held


def test_under_a_secure_sum_nothing_leaves_but_a_confirmation():
    """A server could put the mark on any message, and a client could lack the mod that answers."""
    app = training_app(towards(TARGETS), [SecureSumMod()])
    grid = Federation(app, 1)
    (node,) = grid.contexts
    content = RecordDict({"arrays": record(x=np.zeros(2))})
    content["config"] = ConfigRecord({DELIVERY: 1, "server-round": 1})
    (reply,) = grid.send_and_receive([Message(content, node, MessageType.TRAIN)])
    assert not reply.has_error()
    assert not reply.content


def test_a_grid_that_loses_replies_loses_deliveries_as_well():
    table = np.ones((200, CLIENTS), bool)
    app = training_app(towards(TARGETS))
    app.query()(answer_identity)
    grid = AvailabilityGrid(Federation(app, CLIENTS), Trace(table), loss=[0.0, 0.0, 0.5, 0.5])
    strategy = MimiC(CLIENTS, roster=grid.roster, held_rounds=0)
    grid.wait_for_clients()
    model, confirmed = record(x=np.zeros(2)), np.zeros(CLIENTS)
    send = strategy.deliveries._confirmed

    def watch(reply, clients):
        confirmed[clients] += 1
        send(reply, clients)

    strategy.deliveries._confirmed = watch
    counted = np.zeros(CLIENTS)
    for t in range(1, 201):
        grid.set_round(t)
        messages = strategy.configure_train(t, model, ConfigRecord(), grid)
        model, _ = strategy.aggregate_train(t, grid.send_and_receive(messages))
        counted[list(strategy.last_round.clients)] += 1
    np.testing.assert_array_equal(counted[:2], [200, 200])
    np.testing.assert_array_equal(confirmed[:2], [200, 200])
    assert ((counted[2:] > 80) & (counted[2:] < 120)).all()
    assert ((confirmed[2:] > 30) & (confirmed[2:] < 70)).all()


class Keeping(WeightedUpdate):
    """A user's own: keeps whatever comes after a round."""

    name = "keeping"
    remembers = True

    def receive(self, memory, delivered):
        return {"told": delivered}


class Telling(SumStrategy):
    transform: Transform = Keeping()

    def step(self, model, sums, participants):
        return self.moved(model, sums["update"]) if sums else model

    def delivery(self, before, after):
        return {"x": after["x"] * 0 + self.ledger.round}


def test_a_method_of_ones_own_delivers_what_it_likes():
    grid = Federation(training_app(towards(TARGETS), [FedAUMod(transforms=[Keeping])]), CLIENTS)
    strategy = Telling(CLIENTS)
    play(grid, strategy, np.ones((3, CLIENTS), bool))
    for context in grid.contexts.values():
        (version,) = ContextStore(context).load(strategy.ledger.training)
        np.testing.assert_array_equal(version.memory["told"]["x"], [2, 2])
        np.testing.assert_array_equal(version.received["x"], [3, 3])
