import dataclasses
import itertools
import logging

import numpy as np
import pytest
from flwr.app import ConfigRecord, Error, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg

from fedau_flwr import MIFA, FedAU, FedAUMod, SecureSum, UnitWeighting
from fedau_flwr.server.roster import Roster
from fedau_flwr.testing.in_process_grid import InProcessGrid
from fedau_flwr.wire.requests import Request
from tests.fedau_flwr.client.test_host import Hosting
from tests.fedau_flwr.federation import Federation, record, towards, training_app, values


def asked(strategy, nodes, model, server_round=1):
    """Open a round and return the messages by node."""
    grid = Federation(training_app(towards([0.0])), 0)
    for _ in range(nodes):
        grid.connect({"partition-id": len(grid.contexts)})
    grid.present = set(range(nodes))
    messages = strategy.configure_train(server_round, model, ConfigRecord({"mu": 0.5}), grid)
    return {message.metadata.dst_node_id: message for message in messages}


def answer(message, content=None, **arrays):
    reply = Message(content or RecordDict({"arrays": record(**arrays)}), reply_to=message)
    reply.metadata.__dict__["_message_id"] = "m"
    return reply


def f32(*numbers):
    return np.array(numbers, np.float32)


def test_messages_carry_the_protocol_and_the_users_config():
    strategy = FedAU(num_clients=5, round_timeout=30)
    messages = asked(strategy, 2, record(x=f32(0)))
    for node, message in messages.items():
        config = message.content["config"]
        assert Request.from_config(config) == Request(1, strategy.ledger.training, node)
        assert config["mu"] == 0.5
        assert message.metadata.ttl == 30
        assert message.metadata.message_type == "train"
    strategy.aggregate_train(1, [answer(next(iter(messages.values())), x=f32(1))])
    (first, second) = asked(strategy, 2, record(x=f32(0)), 2).values()
    assert first.content["config"]["fedau-counted"] == 1
    assert second.content["config"]["fedau-counted"] == 0


def test_the_users_config_is_left_alone():
    config = ConfigRecord({"mu": 0.5})
    grid = Federation(training_app(towards([0.0])), 1)
    FedAU(1).configure_train(1, record(x=f32(0)), config, grid)
    assert dict(config) == {"mu": 0.5}


def test_x_plus_eta_over_n_times_the_sum():
    strategy = FedAU(num_clients=4, server_learning_rate=0.5)
    messages = asked(strategy, 2, record(x=f32(1, 2)))
    replies = [answer(m, x=f32(8, 16)) for m in messages.values()]
    model, metrics = strategy.aggregate_train(1, replies)
    np.testing.assert_array_equal(values(model)["x"], f32(3, 6))
    assert metrics is None
    assert replies == []  # freed as it goes


def test_divisor_participants():
    strategy = FedAU(num_clients=40, divisor="participants")
    messages = asked(strategy, 2, record(x=f32(1)))
    model, _ = strategy.aggregate_train(1, [answer(m, x=f32(8)) for m in messages.values()])
    np.testing.assert_array_equal(values(model)["x"], f32(9))


def test_types_are_kept_and_integers_left_alone():
    strategy = FedAU(num_clients=1)
    model = record(h=np.float16([0.5]), s=f32(0), d=np.zeros(1), n=np.array(41), b=np.array([True]))
    (message,) = asked(strategy, 1, model).values()
    reply = answer(message, h=f32(0.25), s=f32(1), d=np.ones(1), n=np.array(0), b=np.array([False]))
    result, _ = strategy.aggregate_train(1, [reply])
    assert {k: (v.dtype.name, v.tolist()) for k, v in values(result).items()} == {
        "h": ("float16", [0.75]),
        "s": ("float32", [1.0]),
        "d": ("float64", [1.0]),
        "n": ("int64", 41),
        "b": ("bool", [True]),
    }


def test_scalars_are_models_too():
    app = training_app(lambda client, arrays, r: {"x": arrays["x"] + np.float32(0.5)})
    grid = Federation(app, 3)
    for strategy in (FedAU(3), MIFA(3)):
        model = grid.play(strategy, 1, record(x=np.array(2, np.float32)))
        model = grid.play(strategy, 2, model)
        assert values(model)["x"].shape == ()
        assert values(model)["x"] == 3.0
        for context in grid.contexts.values():
            context.state.clear()


def test_float16_contributions_are_summed_in_float32():
    strategy = FedAU(num_clients=1000)
    messages = asked(strategy, 30, record(x=np.float16([0])))
    model, _ = strategy.aggregate_train(1, [answer(m, x=f32(5000)) for m in messages.values()])
    assert values(model)["x"] == np.float16(150)  # 150,000 is beyond float16


def test_the_order_of_arrival_does_not_matter_to_the_last_bit():
    rng = np.random.default_rng(5)
    contributions = rng.normal(size=(5, 100)).astype(np.float32)
    results = set()
    for order in itertools.permutations(range(5)):
        strategy = FedAU(num_clients=7)
        messages = list(asked(strategy, 5, record(x=np.zeros(100, np.float32))).values())
        replies = [answer(messages[i], x=contributions[i]) for i in order]
        model, _ = strategy.aggregate_train(1, replies)
        results.add(values(model)["x"].tobytes())
    assert len(results) == 1


def test_client_numbers_order_the_sum_whatever_the_node_ids():
    rng = np.random.default_rng(5)
    contributions = rng.normal(size=(4, 50)).astype(np.float32)
    results = set()
    for order in itertools.permutations(range(4)):
        strategy = FedAU(num_clients=4)
        grid = Federation(training_app(towards([0.0])), 4)
        strategy.roster = Roster(dict(zip(sorted(grid.contexts), order, strict=True)))
        messages = strategy.configure_train(
            1, record(x=np.zeros(50, np.float32)), ConfigRecord(), grid
        )
        numbers = [strategy.roster.number(m.metadata.dst_node_id) for m in messages]
        assert numbers == [0, 1, 2, 3]
        replies = [answer(m, x=contributions[i]) for m, i in zip(messages, numbers, strict=True)]
        results.add(values(strategy.aggregate_train(1, replies)[0])["x"].tobytes())
        assert strategy.ledger.counted == dict.fromkeys(range(4), 1)
    assert len(results) == 1


def with_field(array, **fields):
    return dataclasses.replace(array, **fields)


def garbage():
    """Replies that must not reach the sum, and what is said about them."""
    return {
        "array 'x' with values that are not finite": lambda m: answer(m, x=f32(np.nan, 0)),
        "array 'x' with values that are not finite.": lambda m: answer(m, x=f32(np.inf, 0)),
        "array names that differ from the model's in ['x']": lambda m: answer(
            m, RecordDict({"arrays": record()})
        ),
        "array names that differ from the model's in ['y']": lambda m: answer(
            m, x=f32(0, 0), y=f32(1)
        ),
        "array 'x' of shape (3,) instead of (2,)": lambda m: answer(m, x=f32(0, 0, 0)),
        "array 'x' of shape (1, 2) instead of (2,)": lambda m: answer(m, x=f32(0, 0)[None]),
        "array 'x' of type float64 instead of float32": lambda m: answer(m, x=np.zeros(2)),
        "array 'x' of type int64 instead of float32": lambda m: answer(m, x=np.zeros(2, int)),
        "no data": lambda m: Message(Error(0, "no data"), reply_to=m),
        "2 ArrayRecords instead of one": lambda m: answer(
            m, RecordDict({"arrays": record(x=f32(0, 0)), "b": record(x=f32(0, 0))})
        ),
        "0 ArrayRecords instead of one": lambda m: answer(m, RecordDict({"m": MetricRecord()})),
        "unknown records ['diary']": lambda m: answer(
            m, RecordDict({"arrays": record(x=f32(0, 0)), "diary": ConfigRecord({"a": 1})})
        ),
        "an unweighted model with num-examples=17; its client needs FedAUMod": lambda m: answer(
            m,
            RecordDict({"arrays": record(x=f32(9, 9)), "m": MetricRecord({"num-examples": 17})}),
        ),
        "an unweighted model with num_examples=600; its client needs FedAUMod": lambda m: answer(
            m,
            RecordDict(
                {
                    "fitres.parameters": record(x=f32(9, 9)),
                    "fitres.num_examples": MetricRecord({"num_examples": 600}),
                }
            ),
        ),
        "fedau-clients=3 instead of clients among those asked": lambda m: _from_host(m, 3),
        "fedau-clients=[5] instead of clients among those asked": lambda m: _from_host(m, [5]),
        "it is a NumPyClient, and the strategy needs numpy_clients=True; its error is KeyError: "
        "'fitins.parameters'": lambda m: Message(
            Error(1, "<class 'KeyError'>:<''fitins.parameters''>"), reply_to=m
        ),
        "array 'x' that cannot be decoded": lambda m: _with_data(m, b"\x93NUMPY"),
        "array 'x' of shape (100000000,) instead of (2,)": lambda m: _with_shape(m, (10**8,)),
    }


def _from_host(message, clients):
    label = ConfigRecord({"fedau-clients": clients})
    return answer(message, RecordDict({"arrays": record(x=f32(9, 9)), "fedau": label}))


def _with_data(message, data):
    reply = answer(message, x=f32(0, 0))
    reply.content["arrays"]["x"] = with_field(reply.content["arrays"]["x"], data=data)
    return reply


def _with_shape(message, shape):
    reply = answer(message, x=f32(0, 0))
    reply.content["arrays"]["x"] = with_field(reply.content["arrays"]["x"], shape=shape)
    return reply


@pytest.mark.parametrize("reason", garbage())
def test_bad_replies_are_rejected_in_one_line_and_the_round_goes_on(reason, caplog):
    strategy = FedAU(num_clients=2)
    (good, bad) = asked(strategy, 2, record(x=f32(1, 1))).values()
    with caplog.at_level(logging.INFO):
        model, _ = strategy.aggregate_train(1, [garbage()[reason](bad), answer(good, x=f32(2, 4))])
    np.testing.assert_array_equal(values(model)["x"], f32(2, 3))
    assert strategy.ledger.counted == {good.metadata.dst_node_id: 1, bad.metadata.dst_node_id: 0}
    warnings = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    (warning,) = warnings
    assert f"Rejected the reply of node {bad.metadata.dst_node_id}: " in warning
    assert reason.rstrip(".") in warning
    assert "Round 1: 1 counted, 1 rejected, 0 without reply" in caplog.text


def test_a_second_reply_of_a_node_is_rejected(caplog):
    strategy = FedAU(num_clients=2)
    (message,) = asked(strategy, 1, record(x=f32(0))).values()
    replies = [answer(message, x=f32(2)), answer(message, x=f32(2))]
    model, _ = strategy.aggregate_train(1, replies)
    np.testing.assert_array_equal(values(model)["x"], f32(1))
    assert "a second reply in the same round" in caplog.text


def test_a_reply_of_a_node_that_was_not_asked_is_rejected(caplog):
    strategy = FedAU(num_clients=1)
    messages = asked(strategy, 1, record(x=f32(0)))
    (message,) = messages.values()
    stranger = Message(RecordDict({"arrays": record(x=f32(9))}), reply_to=message)
    stranger.metadata.__dict__["_src_node_id"] = 12345
    model, _ = strategy.aggregate_train(1, [stranger, answer(message, x=f32(2))])
    np.testing.assert_array_equal(values(model)["x"], f32(2))
    assert "Rejected a reply of node 12345: it was not asked in this round." in caplog.text


def test_a_sum_that_overflows_counts_nobody(caplog):
    strategy = FedAU(num_clients=2)
    messages = asked(strategy, 2, record(x=f32(1)))
    model, _ = strategy.aggregate_train(1, [answer(m, x=f32(3e38)) for m in messages.values()])
    np.testing.assert_array_equal(values(model)["x"], f32(1))
    assert set(strategy.ledger.counted.values()) == {0}
    assert "The sum of the contributions is not finite: the round counts nobody." in caplog.text


def test_a_sum_that_overflows_closes_no_interval_of_a_group():
    strategy = FedAU(num_clients=2, groups={"phone": 2})
    label = ConfigRecord({"fedau-group": "phone"})
    big = record(x=f32(3e38))
    replies = [
        answer(m, RecordDict({"arrays": big, "fedau": label}))
        for m in asked(strategy, 2, record(x=f32(1))).values()
    ]
    strategy.aggregate_train(1, replies)
    assert strategy.groups.state_dict() == {"phone": {"intervals": 0, "length": 0, "elapsed": 1}}


def test_a_node_that_hosts_nobody_in_this_round_is_not_asked():
    strategy = FedAU(num_clients=9)
    grid = Federation(training_app(towards([0.0])), 2)
    strategy.roster = Hosting(lambda node: [4, 7] if grid.number(node) == 1 else [])
    (message,) = strategy.configure_train(1, record(x=f32(0)), ConfigRecord(), grid)
    assert grid.number(message.metadata.dst_node_id) == 1
    assert message.content["config"]["fedau-clients"] == [4, 7]


def test_an_empty_round_does_not_wait_and_leaves_the_model():
    grid = Federation(training_app(towards([5.0])), 1)
    grid.present = set()
    result = FedAU(num_clients=3).start(grid, record(x=f32(1)), num_rounds=4)
    np.testing.assert_array_equal(values(result.arrays)["x"], f32(1))


def test_nodes_that_leave_between_two_looks_do_not_block():
    class Leaving(Federation):
        looks = 0

        def get_node_ids(self):
            self.looks += 1
            return super().get_node_ids() if self.looks == 1 else []

    grid = Leaving(training_app(towards([5.0])), 3)
    assert len(FedAU(num_clients=3).configure_train(1, record(x=f32(1)), ConfigRecord(), grid)) == 3
    assert grid.looks == 1


def test_fraction_train_samples_and_zero_trains_nobody():
    grid = Federation(training_app(towards([0.0] * 10)), 10)
    half = FedAU(num_clients=10, fraction_train=0.5)
    assert len(half.configure_train(1, record(x=f32(1)), ConfigRecord(), grid)) == 5
    none = FedAU(num_clients=10, fraction_train=0.0)
    assert none.configure_train(1, record(x=f32(1)), ConfigRecord(), grid) == []


def test_min_available_nodes_waits(monkeypatch):
    grid = InProcessGrid(training_app(towards([0.0] * 3)), 0)
    monkeypatch.setattr("time.sleep", lambda _: grid.connect({}))
    strategy = FedAU(num_clients=3, min_available_nodes=3)
    assert len(strategy.configure_train(1, record(x=f32(1)), ConfigRecord(), grid)) == 3


def test_federated_evaluation_is_off_unless_asked_for(caplog):
    caplog.set_level(logging.INFO, "flwr")
    grid = Federation(training_app(towards([0.0, 0.0])), 2)
    strategy = FedAU(num_clients=2)
    for r in (1, 2):
        assert strategy.configure_evaluate(r, record(x=f32(1)), ConfigRecord(), grid) == []
    assert caplog.text.count("Federated evaluation is off: fraction_evaluate=1.0 turns it on") == 1
    on = FedAU(num_clients=2, fraction_evaluate=1.0)
    messages = on.configure_evaluate(1, record(x=f32(1)), ConfigRecord({"b": 1}), grid)
    assert [dict(m.content["config"]) for m in messages] == [{"b": 1, "server-round": 1}] * 2
    assert {m.metadata.message_type for m in messages} == {"evaluate"}


def test_start_hands_its_timeout_to_the_messages():
    grid = Federation(training_app(towards([1.0])), 1)
    FedAU(num_clients=1).start(grid, record(x=f32(0)), num_rounds=1, timeout=12.5)
    assert grid.received[0].metadata.ttl == 12.5


def test_reported_metrics_are_averaged_plainly():
    app = training_app(towards([1.0, 2.0]), [FedAUMod(report=("train_loss",))])
    grid = Federation(app, 2)
    grid.play(FedAU(num_clients=2), 1, record(x=f32(0)))
    assert dict(grid.metrics) == {"train_loss": 0.25}


def test_metrics_that_do_not_fit_together_are_left_out(caplog):
    app = training_app(towards([1.0, 2.0]), [FedAUMod(report=("train_loss",))])
    grid = Federation(app, 2)
    strategy, model = FedAU(num_clients=2), record(x=f32(0))
    replies = list(grid.send_and_receive(strategy.configure_train(1, model, ConfigRecord(), grid)))
    replies[1].content["metrics"]["train_loss"] = [0.5]
    after, metrics = strategy.aggregate_train(1, replies)
    assert metrics is None
    assert after is not None
    assert "Reported metrics are ignored, since replies differ in them" in caplog.text


def test_a_reason_that_a_client_gives_is_one_short_line_of_the_log(caplog):
    app = training_app(towards([1.0, 2.0]))
    grid = Federation(app, 2)
    strategy, model = FedAU(num_clients=2), record(x=f32(0))
    replies = list(grid.send_and_receive(strategy.configure_train(1, model, ConfigRecord(), grid)))
    reason = "no\nRound 9: 99 counted" + 1000 * "!"
    replies[1] = Message(Error(0, reason), reply_to=replies[1])
    vars(replies[1].metadata)["_src_node_id"] = replies[1].metadata.dst_node_id
    strategy.aggregate_train(1, replies)
    (said,) = [text for text in caplog.messages if text.startswith("Rejected")]
    assert "\n" not in said
    assert len(said) < 600


def test_groups_live_on_the_server():
    app = training_app(lambda client, arrays, r: {"x": arrays["x"] + 1})
    grid = Federation(app, 3)
    for node in grid.contexts:
        grid.contexts[node].node_config["fedau-group"] = "phones"
    strategy = FedAU(num_clients=30, groups={"phones": 30})
    model = record(x=np.zeros(1))
    for r, present in enumerate([{0}, set(), {1, 2}, {0}], 1):
        grid.present = present
        model = grid.play(strategy, r, model)
    # Weights 1 in round 1; 30 in round 3, where the next 60 close in two intervals; then 90/3.
    assert values(model)["x"] == pytest.approx((1 + 2 * 30 + 30) / 30)
    assert strategy.groups.weights() == {"phones": 30.0}


def test_summary_speaks_flowers_form(caplog):
    with caplog.at_level(logging.INFO):
        FedAU(num_clients=250, server_learning_rate=0.5).summary()
    lines = [record.getMessage() for record in caplog.records]
    assert lines[0] == "\t├──> FedAU settings:"
    assert "\t│\t├── Divisor: clients" in lines
    assert "\t│\t├── Clients: 250" in lines
    assert "\t├──> Sampling:" in lines


def test_is_a_flower_strategy():
    assert issubclass(FedAU, FedAvg)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_clients": 0}, "num_clients is 0, but must be an integer >= 1."),
        ({"num_clients": 2.0}, "num_clients is 2.0, but must be an integer >= 1."),
        ({"server_learning_rate": 0}, "server_learning_rate is 0, but must be > 0."),
        ({"divisor": "n"}, "divisor is 'n', but must be 'clients' or 'participants'."),
        ({"round_timeout": -1}, "round_timeout is -1, but must be > 0 seconds."),
        (
            {"summation": SecureSum},
            "summation is <class 'fedau_flwr.secure.summation.SecureSum'>, but must be an object "
            "such as SecureSum().",
        ),
        (
            {"privacy": 1.0},
            "privacy is 1.0, but must be an object such as GaussianPrivacy(norm=1.0, "
            "noise_multiplier=1.0).",
        ),
        ({"roster": {}}, "roster is {}, but must be an object such as grid.roster."),
        ({"unweighted": "bn"}, "unweighted is 'bn', but must be a tuple of array names."),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=r".") as error:
        FedAU(**{"num_clients": 2, **options})
    assert str(error.value) == message


def test_rounds_go_forward_only():
    strategy = FedAU(num_clients=1)
    asked(strategy, 1, record(x=f32(0)), 3)
    with pytest.raises(ValueError, match="server_round is 3, but round 3 has been run already"):
        asked(strategy, 1, record(x=f32(0)), 3)
    with pytest.raises(ValueError, match="called for round 4, but configure_train was not"):
        strategy.aggregate_train(4, [])


def paths(clients, rounds, seed=0):
    rng = np.random.default_rng(seed)
    return [set(np.flatnonzero(rng.random(clients) < 0.4).tolist()) for _ in range(rounds)]


@pytest.mark.parametrize("mods", [[FedAUMod()], [FedAUMod(UnitWeighting())]])
def test_resume_from_an_older_checkpoint_goes_on_exactly(tmp_path, mods):
    """Rounds 1-12 without a stop equal 1-6, 7-9 thrown away by a crash, and 7-12 again."""
    train, path = towards(np.arange(4.0)), paths(4, 12)
    runs = {}
    for name, plan in {"straight": [12], "crashed": [6, 9]}.items():
        app = training_app(train, mods)
        grid = Federation(app, 4, node_config={"fedau-state-dir": str(tmp_path / name)})
        strategy = FedAU(num_clients=4)
        strategy.client_numbers = {node: grid.number(node) for node in grid.contexts}
        strategy.checkpointed(0)
        model = record(x=np.zeros(1))
        saved = None
        for r in range(1, plan[-1] + 1):
            grid.present = path[r - 1]
            model = grid.play(strategy, r, model)
            if r == plan[0] and len(plan) > 1:
                saved = strategy.state_dict(), model
                strategy.checkpointed(r)
        if saved:
            strategy = FedAU(num_clients=4)
            strategy.load_state_dict(saved[0])
            model = saved[1]
            grid = Federation(app, 4, node_config={"fedau-state-dir": str(tmp_path / name)})
            strategy.client_numbers = {node: grid.number(node) for node in grid.contexts}
            for r in range(7, 13):
                grid.present = path[r - 1]
                model = grid.play(strategy, r, model)
        runs[name] = values(model)["x"].tobytes()
    assert runs["crashed"] == runs["straight"]


def test_flowers_loop_goes_on_with_the_round_after_the_checkpoint():
    grid = Federation(training_app(towards([1.0])), 1)
    first = FedAU(num_clients=1)
    first.start(grid, record(x=f32(0)), num_rounds=3)
    second = FedAU(num_clients=1)
    second.load_state_dict(first.state_dict())
    second.start(grid, record(x=f32(0)), num_rounds=2)
    rounds = [m.content["config"]["server-round"] for m in grid.received]
    assert rounds == [1, 2, 3, 4, 5]
    assert second.ledger.counted[next(iter(grid.contexts))] == 5
