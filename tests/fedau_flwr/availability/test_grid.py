"""AvailabilityGrid under Flower's own, unmodified FedAvg, with real ClientApps in this process."""

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
    RecordDict,
)
from flwr.client import NumPyClient
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg
from flwr.supercore.run import Run

from fedau_flwr import FedAU
from fedau_flwr.availability import AvailabilityGrid, Bernoulli, Trace, answer_identity
from fedau_flwr.testing.in_process_grid import InProcessGrid
from tests.fedau_flwr.federation import record, towards, training_app

CLIENTS = 6


def make_app(trained):
    """Return an app whose client n adds 2**n to the model, and that notes who trained when."""
    app = ClientApp(mods=[answer_identity])

    @app.train()
    def train(message, context):
        client = context.node_config["partition-id"]
        trained.append((message.content["config"]["server-round"], client))
        model = message.content["arrays"]["x"].numpy() + 2.0**client
        content = {
            "arrays": ArrayRecord({"x": Array(model)}),
            "metrics": MetricRecord({"num-examples": 1}),
        }
        return Message(RecordDict(content), reply_to=message)

    @app.evaluate()
    def evaluate(message, context):
        content = {"metrics": MetricRecord({"num-examples": 1, "seen": 1.0})}
        return Message(RecordDict(content), reply_to=message)

    return app


def run_fedavg(process, rounds, following=False, fraction_evaluate=0.0, **options):
    """Run FedAvg and return who trained in each round, the models after each, and the grid."""
    trained, models = [], {}
    grid = AvailabilityGrid(InProcessGrid(make_app(trained), process.clients), process, **options)
    strategy = FedAvg(
        fraction_evaluate=fraction_evaluate,
        min_train_nodes=0,
        min_evaluate_nodes=0,
        min_available_nodes=0,
    )

    def evaluate(server_round, arrays):
        models[server_round] = arrays["x"].numpy().item()

    start = ArrayRecord({"x": Array(np.array([0.0]))})
    followed = grid.following(evaluate) if following else evaluate
    strategy.start(grid, start, num_rounds=rounds, evaluate_fn=followed)
    participants = [
        sorted(client for at, client in trained if at == r) for r in range(1, rounds + 1)
    ]
    return participants, models, grid


@pytest.mark.parametrize(
    "options", [{}, {"following": True}, {"fraction_evaluate": 1.0}], ids=lambda o: [*o, "alone"][0]
)
def test_participants_are_the_path_of_the_process(options):
    process = Bernoulli(np.linspace(0.1, 0.8, CLIENTS), seed=3)
    participants, models, _ = run_fedavg(process, rounds=12, **options)
    path = [np.flatnonzero(process.active(t)) for t in range(12)]
    assert participants == [clients.tolist() for clients in path]
    x = 0.0
    for t, clients in enumerate(path):
        x += np.mean(2.0**clients) if clients.size else 0.0
        assert models[t + 1] == pytest.approx(x)


def test_fedavg_survives_empty_rounds():
    participants, models, _ = run_fedavg(Trace([[0, 0], [0, 1], [0, 0], [1, 1]]), rounds=4)
    assert participants == [[], [1], [], [0, 1]]
    assert models == {0: 0.0, 1: 0.0, 2: 2.0, 3: 2.0, 4: 3.5}


def test_lost_replies_are_trained_but_not_aggregated():
    process = Trace(np.ones((8, CLIENTS)))
    participants, models, grid = run_fedavg(process, rounds=8, loss=0.5, seed=5)
    assert participants == [list(range(CLIENTS))] * 8
    arrived = [np.flatnonzero(~grid.lost(r)) for r in range(1, 9)]
    assert 0 < sum(len(clients) for clients in arrived) < 8 * CLIENTS
    assert len({tuple(clients) for clients in arrived}) > 1
    x = 0.0
    for server_round, clients in enumerate(arrived, start=1):
        x += np.mean(2.0**clients) if clients.size else 0.0
        assert models[server_round] == pytest.approx(x)


def test_a_client_of_certain_loss_never_arrives():
    loss = [0.0, 1.0, 0.0]
    participants, models, _ = run_fedavg(Trace(np.ones((2, 3))), rounds=2, loss=loss)
    assert participants == [[0, 1, 2]] * 2
    assert models[2] == 2 * (1 + 4) / 2


def test_loss_frequency_is_the_given_one():
    clients = 20_000
    grid = AvailabilityGrid(
        InProcessGrid(make_app([]), 1), Bernoulli(np.full(clients, 0.5), 1), loss=0.3, seed=1
    )
    assert grid.lost(1).mean() == pytest.approx(0.3, abs=4 * np.sqrt(0.21 / clients))
    assert (grid.lost(1) != grid.lost(2)).any()


def test_nodes_and_replies_are_in_the_order_of_clients():
    inner = InProcessGrid(make_app([]), CLIENTS)
    grid = AvailabilityGrid(inner, Trace([[1, 0, 1, 1, 0, 1]]))
    grid.set_round(1)
    nodes = grid.get_node_ids()
    assert nodes != sorted(nodes)
    assert [grid.client_numbers[node] for node in nodes] == [0, 2, 3, 5]
    assert [info.node_id for info in grid.get_nodes()] == nodes
    everyone = grid.everyone().get_node_ids()
    assert [grid.client_numbers[node] for node in everyone] == list(range(CLIENTS))
    random.Random(0).shuffle(everyone)
    messages = [
        Message(RecordDict({"config": ConfigRecord()}), node, MessageType.EVALUATE)
        for node in everyone
    ]
    replies = grid.send_and_receive(messages)
    sources = [grid.client_numbers[reply.metadata.src_node_id] for reply in replies]
    assert sources == list(range(CLIENTS))


def test_evaluation_reaches_everyone_without_loss():
    inner = InProcessGrid(make_app([]), CLIENTS)
    grid = AvailabilityGrid(inner, Trace([[0] * CLIENTS]), loss=1.0)
    grid.set_round(1)
    everyone = grid.everyone()
    strategy = FedAvg(min_available_nodes=0)
    arrays = ArrayRecord({"x": Array(np.array([0.0]))})
    messages = strategy.configure_evaluate(1, arrays, ConfigRecord(), everyone)
    assert len(everyone.send_and_receive(messages)) == CLIENTS


def test_nodes_are_asked_once_and_late_ones_when_they_come():
    inner = InProcessGrid(make_app([]), 2)
    grid = AvailabilityGrid(inner, Trace(np.ones((1, 4))))
    grid.set_round(1)
    first = grid.get_node_ids()
    assert grid.get_node_ids() == first
    assert len(inner.received) == 2
    late = inner.connect({"partition-id": 3})
    assert grid.get_node_ids() == [*first, late]
    assert len(inner.received) == 3
    inner.disconnect(first[0])
    assert grid.get_node_ids() == [first[1], late]


def test_a_node_that_does_not_answer_is_left_out_and_asked_again():
    inner = InProcessGrid(make_app([]), 3)
    grid = AvailabilityGrid(inner, Trace(np.ones((1, 3))))
    grid.set_round(1)
    silent = next(iter(inner.contexts))
    inner.silent.add(silent)
    assert [grid.client_numbers[node] for node in grid.get_node_ids()] == [1, 2]
    inner.silent.clear()
    assert grid.get_node_ids()[0] == silent


def test_waiting_for_clients_that_connect_late(monkeypatch):
    inner = InProcessGrid(make_app([]), 1)
    grid = AvailabilityGrid(inner, Trace(np.ones((1, 3))))
    monkeypatch.setattr(
        "time.sleep", lambda _: inner.connect({"partition-id": len(inner.contexts)})
    )
    grid.wait_for_clients(1)
    assert len(inner.contexts) == 1
    grid.wait_for_clients()
    assert sorted(grid.client_numbers.values()) == [0, 1, 2]


def test_waiting_for_clients_ends_at_its_timeout():
    grid = AvailabilityGrid(InProcessGrid(make_app([]), 1), Trace(np.ones((1, 3))))
    with pytest.raises(TimeoutError, match=r"^Only 1 of 3 clients were connected after 0 seconds"):
        grid.wait_for_clients(timeout=0)


def test_a_node_that_came_back_replaces_its_old_self():
    inner = InProcessGrid(make_app([]), 2)
    grid = AvailabilityGrid(inner, Trace(np.ones((1, 2))))
    grid.set_round(1)
    old = grid.get_node_ids()
    new = inner.connect({"partition-id": 0})
    assert grid.get_node_ids() == [new, old[1]]


def test_an_app_without_identity_is_told_what_to_add():
    grid = AvailabilityGrid(InProcessGrid(ClientApp(), 1), Trace([[1]]))
    grid.set_round(1)
    with pytest.raises(
        ValueError, match=r"^Node \d+ did not .* needs `ClientApp\(mods=\[fedau_flwr.answer_id"
    ) as caught:
        grid.get_node_ids()
    assert "\n" not in str(caught.value)


def test_the_error_of_an_app_is_shown_on_one_line():
    app = ClientApp()

    @app.query()
    def fail(message, context):
        raise ValueError("what\nhappened")

    grid = AvailabilityGrid(InProcessGrid(app, 1), Trace([[1]]))
    grid.set_round(1)
    with pytest.raises(ValueError, match=r"^Node \d+ did not say .*\(ValueError: what happened"):
        grid.get_node_ids()


def test_an_answer_without_the_number_is_told_what_to_add():
    app = ClientApp()
    app.query()(lambda message, context: Message(RecordDict(), reply_to=message))
    grid = AvailabilityGrid(InProcessGrid(app, 1), Trace([[1]]))
    grid.set_round(1)
    with pytest.raises(ValueError, match=r"holds no integer partition-id\): where no"):
        grid.get_node_ids()


def test_an_app_may_answer_by_itself_with_metrics():
    app = ClientApp()

    @app.query()
    def answer(message, context):
        number = MetricRecord({"partition-id": context.node_config["partition-id"]})
        return Message(RecordDict({"mine": number}), reply_to=message)

    grid = AvailabilityGrid(InProcessGrid(app, 2), Trace([[1, 1]]))
    grid.set_round(1)
    assert [grid.client_numbers[node] for node in grid.get_node_ids()] == [0, 1]


@pytest.mark.parametrize(
    ("node_config", "sentence"),
    [
        ({}, r"cannot say which client it is: `partition-id` in its node config is None and"),
        ({"partition-id": "a"}, r"cannot say which client it is: .* is 'a' and"),
        ({"partition-id": 9}, r"says that it is client 9: .* has the clients 0 to 1\."),
    ],
)
def test_wrong_numbers_are_named(node_config, sentence):
    inner = InProcessGrid(make_app([]), 0)
    inner.connect(node_config)
    grid = AvailabilityGrid(inner, Trace([[1, 1]]))
    grid.set_round(1)
    with pytest.raises(ValueError, match=rf"^Node \d+ {sentence}"):
        grid.get_node_ids()


def test_a_strategy_of_ours_tells_the_round_and_a_mod_of_ours_the_client():
    process = Bernoulli(np.linspace(0.2, 0.8, CLIENTS), seed=3)
    inner = InProcessGrid(training_app(towards([1.0] * CLIENTS)), CLIENTS)
    grid = AvailabilityGrid(inner, process)
    grid.wait_for_clients()
    strategy = FedAU(CLIENTS, roster=grid.roster, fraction_evaluate=0.0)
    seen = []
    for part in (5, 7):  # a second start goes on with the rounds of the first

        def note(r, arrays):
            seen.append(strategy.last_round)

        strategy.start(grid, record(x=np.zeros(1)), num_rounds=part, evaluate_fn=note)
    came = [report.clients for report in seen if report is not None]
    path = [tuple(np.flatnonzero(process.active(t)).tolist()) for t in range(12)]
    assert came[:5] == path[:5]
    assert came[6:] == path[5:]


def test_an_app_with_a_query_of_its_own_keeps_it():
    app = training_app(towards([1.0, 2.0]), [reads_config])
    app.query()(lambda message, context: Message(RecordDict(), reply_to=message))
    app.query("fedau_identity")(answer_identity)
    grid = AvailabilityGrid(InProcessGrid(app, 2), Trace([[1, 1]]))
    assert [grid.client_numbers[node] for node in grid.get_node_ids()] == [0, 1]


def reads_config(message, context, call_next):
    assert message.content["config"]["server-round"] >= 0
    return call_next(message, context)


def test_an_app_that_registered_the_default_query_is_asked_by_that():
    app = ClientApp()
    app.query()(answer_identity)
    grid = AvailabilityGrid(InProcessGrid(app, 2), Trace([[1, 1]]))
    assert [grid.client_numbers[node] for node in grid.get_node_ids()] == [0, 1]


def test_an_app_with_a_client_fn_answers_by_a_mod():
    app = ClientApp(lambda context: NumPyClient().to_client(), mods=[answer_identity])
    grid = AvailabilityGrid(InProcessGrid(app, 2), Trace([[1, 1]]))
    assert [grid.client_numbers[node] for node in grid.get_node_ids()] == [0, 1]


@pytest.mark.parametrize("needed", [0, 2])
def test_a_strategy_that_would_wait_for_ever_is_told_at_the_start(needed, caplog):
    grid = AvailabilityGrid(InProcessGrid(make_app([]), 2), Trace([[1, 1]]))
    strategy = FedAvg(fraction_evaluate=0.0, min_train_nodes=needed, min_available_nodes=0)
    start = ArrayRecord({"x": Array(np.array([0.0]))})
    strategy.start(grid, start, num_rounds=1)
    told = [m for m in caplog.messages if "FedAvg waits in every round until 2 nodes" in m]
    assert len(told) == (needed > 0)


def test_a_loop_without_evaluation_has_to_tell_the_round():
    grid = AvailabilityGrid(InProcessGrid(make_app([]), 1), Trace([[1], [1]]))
    strategy = FedAvg(min_train_nodes=0, min_available_nodes=0)
    arrays = ArrayRecord({"x": Array(np.array([0.0]))})
    grid.send_and_receive(strategy.configure_train(1, arrays, ConfigRecord(), grid))
    messages = list(strategy.configure_train(2, arrays, ConfigRecord(), grid))
    sentence = r"^AvailabilityGrid showed the nodes of round 1, but a message says round 2: call"
    with pytest.raises(RuntimeError, match=sentence):
        grid.send_and_receive(messages)
    with pytest.raises(RuntimeError, match=sentence):
        grid.push_messages(messages)
    grid.set_round(2)
    assert len(grid.send_and_receive(messages)) == 1


def test_a_round_is_an_integer_from_one_on():
    grid = AvailabilityGrid(InProcessGrid(make_app([]), 1), Trace([[1]]))
    for wrong in (0, 1.0, True):
        with pytest.raises(ValueError, match=rf"^server_round is {wrong}, but must be "):
            grid.set_round(wrong)


@pytest.mark.parametrize("wrong", [-0.1, 1.1, [0.5, 0.5], float("nan")])
def test_wrong_loss_is_named(wrong):
    with pytest.raises(ValueError, match=r"^loss is .*, but must be .*\.$"):
        AvailabilityGrid(InProcessGrid(make_app([]), 1), Trace([[1]]), loss=wrong)


def test_push_and_pull_and_the_rest_are_delegated():
    trained = []
    inner = InProcessGrid(make_app(trained), 2)
    grid = AvailabilityGrid(inner, Trace([[1, 1]]), loss=[1.0, 0.0])
    grid.set_round(1)
    run = Run.create_empty(run_id=7)
    grid.set_run(run)
    assert grid.run is run is inner.run
    content = RecordDict(
        {
            "arrays": ArrayRecord({"x": Array(np.array([0.0]))}),
            "config": ConfigRecord({"server-round": 1}),
        }
    )
    messages = [
        grid.create_message(content, MessageType.TRAIN, node, "1", ttl=5.0)
        for node in grid.get_node_ids()
    ]
    assert [(m.metadata.group_id, m.metadata.ttl) for m in messages] == [("1", 5.0)] * 2
    ids = list(grid.push_messages(messages))
    replies = list(grid.pull_messages(ids))
    assert trained == [(1, 0), (1, 1)]
    assert [grid.client_numbers[reply.metadata.src_node_id] for reply in replies] == [1]
