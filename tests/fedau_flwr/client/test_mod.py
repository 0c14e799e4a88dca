import numpy as np
import pytest
from flwr.app import ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.mod import LocalDpMod, arrays_size_mod, fixedclipping_mod, message_size_mod

from fedau_flwr import (
    FedAU,
    FedAUMod,
    FedAUWeighting,
    InverseProbabilityWeighting,
    SecureSum,
    SecureSumMod,
    UnitWeighting,
)
from fedau_flwr.weighting import Weighting
from fedau_flwr.wire.requests import Request
from tests.fedau_flwr.federation import Federation, record, towards, training_app, values


def message(config=None, message_type="train", **arrays):
    fields = Request(3, "t1").to_config() if config is None else config
    content = RecordDict({"arrays": record(**arrays), "config": ConfigRecord(fields)})
    return Message(content, dst_node_id=7, message_type=message_type)


def context(node_config=None, **run_config):
    return Context(1, 7, {"partition-id": 0, **(node_config or {})}, RecordDict(), run_config)


def plus_one(client, arrays, server_round):
    return {name: value + value.dtype.type(1) for name, value in arrays.items()}


@pytest.fixture(autouse=True)
def grid():
    return Federation(training_app(plus_one), 1)  # gives messages a sender


def test_a_reply_holds_the_contribution_and_nothing_else():
    app = training_app(plus_one)
    asked = message({**Request(9, "t1", counted=0).to_config()}, x=np.zeros(3, np.float32))
    content = app(asked, context()).content
    assert list(content) == ["arrays"]
    assert list(content["arrays"]) == ["x"]
    # Absent in rounds 1 to 8: no interval has closed yet, and the weight is 1.
    np.testing.assert_array_equal(content["arrays"]["x"].numpy(), np.ones(3, np.float32))


def test_the_weight_comes_from_the_rounds_that_were_counted():
    app, where = training_app(plus_one), context()
    sent = []
    for r, counted in [(4, None), (6, 4), (7, 4), (9, 7)]:
        asked = message(Request(r, "t1", counted=counted).to_config(), x=np.zeros(1))
        sent.append(app(asked, where).content["arrays"]["x"].numpy()[0])
    # Intervals: 4 rounds up to 4; then 6 was lost and 7 counted, 3 rounds.
    assert sent == [1.0, 4.0, 4.0, 3.5]


@pytest.mark.parametrize("mods", [[FedAUMod()], [FedAUMod(), SecureSumMod()]])
def test_a_secure_sum_without_its_mod_in_front_is_told(mods, caplog):
    grid = Federation(training_app(plus_one, mods), 3)
    grid.play(FedAU(3, summation=SecureSum()), 1, record(x=np.zeros(1)))
    assert (
        "put SecureSumMod first, as in ClientApp(mods=[SecureSumMod(), FedAUMod()])" in caplog.text
    )


def test_local_privacy_of_flower_goes_inside():
    private = LocalDpMod(clipping_norm=0.5, sensitivity=1e-9, epsilon=1.0, delta=0.5)
    inside = training_app(plus_one, [FedAUMod(), private])(message(x=np.zeros(1)), context())
    np.testing.assert_allclose(inside.content["arrays"]["x"].numpy(), 0.5, atol=1e-6)
    outside = training_app(plus_one, [private, FedAUMod()])(message(x=np.zeros(1)), context())
    assert outside.error.reason.startswith("LocalDpMod comes before FedAUMod and would take")


def test_bytes_cannot_be_summed():
    def grow(client, arrays, server_round):
        return {**arrays, "trees": np.zeros(9, np.uint8)}

    reply = training_app(grow)(message(x=np.zeros(1), trees=np.zeros(2, np.uint8)), context())
    assert reply.error.reason == (
        "Array 'trees' holds bytes, 2 in the model and 9 in the reply: a serialised model, such as "
        "boosted trees, cannot be summed."
    )


def test_going_on_with_another_weighting_is_refused():
    where = context()
    for r, weighting, refused in (
        (3, FedAUWeighting(50), False),
        (4, FedAUWeighting(40), True),
        (5, FedAUWeighting(50), False),
    ):
        asked = message(Request(r, "t1").to_config(), x=np.zeros(1))
        reply = training_app(plus_one, [FedAUMod(weighting)])(asked, where)
        assert reply.has_error() == refused
        if refused:
            assert reply.error.reason == (
                f"The weighting is {weighting!r}, but this training's state was made with "
                f"{FedAUWeighting(50)!r}: use that one, or remove the state."
            )


def test_a_weighting_of_ones_own_needs_no_name():
    class Own(UnitWeighting):
        __repr__ = Weighting.__repr__

    where = context()
    for r in (3, 4):
        asked = message(Request(r, "t1").to_config(), x=np.zeros(1))
        assert not training_app(plus_one, [FedAUMod(Own())])(asked, where).has_error()


def test_only_named_metrics_are_reported(caplog):
    app = training_app(plus_one, [FedAUMod(report=("train_loss", "accuracy"))])
    content = app(message(x=np.zeros(1)), context()).content
    assert {name: dict(content[name]) for name in content.metric_records} == {
        "metrics": {"train_loss": 0.25}
    }
    assert "'accuracy' is to be reported, but the app's reply does not hold it" in caplog.text


def test_float16_travels_as_float32_and_integers_as_zeros():
    app = training_app(plus_one, [FedAUMod(InverseProbabilityWeighting(1e-5))])
    arrays = {
        "half": np.full(2, 0.5, np.float16),
        "double": np.zeros(2, np.float64),
        "count": np.array(41, np.int64),
        "mask": np.array([1, 0], np.uint8),
    }
    sent = values(app(message(**arrays), context()).content["arrays"])
    assert sent["half"].dtype == np.float32
    np.testing.assert_allclose(sent["half"], 1e5)  # beyond the range of float16
    assert sent["double"].dtype == np.float64
    assert sent["count"] == 0
    assert sent["count"].dtype == np.int64
    np.testing.assert_array_equal(sent["mask"], np.zeros(2, np.uint8))


def test_bfloat16_becomes_float32():
    # As a JAX app makes it: Flower notes the type's name, numpy keeps two bytes per value.
    import dataclasses

    plain = np.array([1.5, -2.0], np.float32)
    bits = (plain.view(np.uint32) >> 16).astype(np.uint16)
    array = record(x=bits.view("V2"))["x"]
    asked = message(x=np.zeros(2))
    asked.content["arrays"]["x"] = dataclasses.replace(array, dtype="bfloat16")
    app = ClientApp(mods=[FedAUMod()])

    @app.train()
    def run(received, where):
        return Message(RecordDict({"arrays": record(x=plain + 1)}), reply_to=received)

    sent = app(asked, context()).content["arrays"]["x"].numpy()
    assert sent.dtype == np.float32
    np.testing.assert_array_equal(sent, np.ones(2))


@pytest.mark.parametrize("importance", [2.5, lambda where: where.node_config["q"] * 5])
def test_importance_scales_the_update(importance):
    app = training_app(plus_one, [FedAUMod(importance=importance)])
    reply = app(message(x=np.zeros(1)), context({"q": 0.5}))
    assert reply.content["arrays"]["x"].numpy() == 2.5


def test_other_messages_pass_through():
    app = ClientApp(mods=[FedAUMod()])

    @app.evaluate()
    def evaluate(received, where):
        return Message(RecordDict({"m": MetricRecord({"loss": 1.0})}), reply_to=received)

    reply = app(message({}, "evaluate", x=np.zeros(1)), context())
    assert reply.content["m"]["loss"] == 1.0


def test_named_train_actions_are_weighted_as_well():
    app = ClientApp(mods=[FedAUMod(InverseProbabilityWeighting(0.5))])

    @app.train("local")
    def run(received, where):
        return Message(RecordDict({"arrays": record(x=np.ones(1))}), reply_to=received)

    reply = app(message(message_type="train.local", x=np.zeros(1)), context())
    assert reply.content["arrays"]["x"].numpy() == 2.0


def broken(client, arrays, server_round):
    return {**arrays, "x": arrays["x"] * np.nan}


def reshaped(client, arrays, server_round):
    return {"x": np.zeros(9)}


def renamed(client, arrays, server_round):
    return {"y": arrays["x"]}


def huge(client, arrays, server_round):
    return {"x": arrays["x"] + np.float32(3e38)}


@pytest.mark.parametrize(
    ("train", "reason"),
    [
        (broken, "The update of array 'x' is not finite, so it is not sent."),
        (huge, "The update of array 'x' is not finite, so it is not sent."),
        (reshaped, "Array 'x' has shape (9,), but must keep the model's (2,)."),
        (renamed, "The reply's arrays differ from the model's in ['x', 'y'], but must"),
    ],
)
def test_an_update_that_cannot_be_added_is_refused_and_leaves_no_trace(train, reason):
    where = context()
    app = training_app(train, [FedAUMod(InverseProbabilityWeighting(0.1))])
    reply = app(message(x=np.zeros(2, np.float32)), where)
    assert reason in reply.error.reason
    assert not where.state


def test_complex_models_are_refused():
    reply = training_app(plus_one)(message(x=np.zeros(1, complex)), context())
    assert "has type complex128, but must be float, integer or bool" in reply.error.reason


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda c: c.update({"more": record(x=np.zeros(1))}), "holds 2 ArrayRecords, but must"),
        (lambda c: c.pop("arrays"), "holds 0 ArrayRecords, but must hold exactly one"),
        (lambda c: c.pop("config"), "holds 0 ConfigRecords, but must hold exactly one"),
        (lambda c: c["config"].pop("fedau-run"), r"use fedau_flwr.FedAU"),
        (lambda c: c["config"].update({"clipping_norm": 1.0}), "use fedau_flwr.privacy"),
    ],
)
def test_messages_that_it_cannot_answer_get_an_error_reply(change, reason):
    asked = message(x=np.zeros(1))
    change(asked.content)
    assert reason in training_app(plus_one)(asked, context()).error.reason


def test_flowers_clipping_is_an_error_on_either_side():
    for mods in ([fixedclipping_mod, FedAUMod()], [FedAUMod(), fixedclipping_mod]):
        asked = message(x=np.zeros(1))
        asked.content["config"]["clipping_norm"] = 1.0
        reply = training_app(plus_one, mods)(asked, context())
        assert "use fedau_flwr.privacy" in reply.error.reason


def test_flowers_size_mods_compose():
    mods = [message_size_mod, FedAUMod(), arrays_size_mod]
    reply = training_app(plus_one, mods)(message(x=np.zeros(1)), context())
    assert reply.content["arrays"]["x"].numpy() == 1.0


def test_an_error_of_the_app_is_passed_on():
    from flwr.app import Error

    app = ClientApp(mods=[FedAUMod()])

    @app.train()
    def run(received, where):
        return Message(Error(code=0, reason="no data"), reply_to=received)

    where = context()
    assert app(message(x=np.zeros(1)), where).error.reason == "no data"
    assert not where.state


def test_a_state_directory_outlives_the_context(tmp_path):
    app = training_app(plus_one)

    def where():
        return context({"fedau-state-dir": str(tmp_path)})

    first = where()
    app(message(Request(4, "t1").to_config(), x=np.zeros(1)), first)
    assert not first.state
    reply = app(message(Request(6, "t1", counted=4).to_config(), x=np.zeros(1)), where())
    assert reply.content["arrays"]["x"].numpy() == 4.0


def test_a_run_does_not_choose_where_a_node_writes(tmp_path, caplog):
    where = context(**{"fedau-state-dir": str(tmp_path / "chosen")})
    reply = training_app(plus_one)(message(x=np.zeros(1)), where)
    assert not reply.has_error()
    assert list(tmp_path.iterdir()) == []
    assert where.state
    assert "fedau-state-dir in the run config is ignored" in caplog.text


def test_a_group_uses_the_servers_weight_and_is_the_one_label_sent():
    app = training_app(plus_one)
    fields = Request(3, "t1", groups={"phone-a": 12.5}).to_config()
    content = app(message(fields, x=np.zeros(1)), context({"fedau-group": "phone-a"})).content
    assert content["arrays"]["x"].numpy() == 12.5
    assert dict(content["fedau"]) == {"fedau-group": "phone-a"}
    assert sorted(content) == ["arrays", "fedau"]
    unknown = app(message(fields, x=np.zeros(1)), context({"fedau-group": "phone-b"}))
    assert "fedau-group is 'phone-b', but the server knows the groups" in unknown.error.reason
    alone = app(message(fields, x=np.zeros(1)), context())
    assert sorted(alone.content) == ["arrays"]


def test_stale_delivery_gets_an_error_reply():
    app, where = training_app(plus_one), context()
    app(message(x=np.zeros(1)), where)
    assert "Stale delivery" in app(message(x=np.zeros(1)), where).error.reason


def test_two_in_a_row_are_refused():
    app, where = training_app(plus_one, [FedAUMod(), FedAUMod()]), context()
    reply = app(message(x=np.zeros(1)), where)
    assert "applied twice to this client" in reply.error.reason
    assert not where.state
    assert not training_app(plus_one)(message(x=np.zeros(1)), where).has_error()


@pytest.mark.parametrize("importance", [np.nan, -1.0, "large", lambda where: None])
def test_importance_must_be_a_number(importance):
    reply = training_app(plus_one, [FedAUMod(importance=importance)])(
        message(x=np.zeros(1)), context()
    )
    assert reply.error.reason.startswith("importance is ")
    assert reply.error.reason.endswith(", but must be a finite number >= 0.")


@pytest.mark.parametrize(
    ("arguments", "options", "reason"),
    [
        (
            (50,),
            {},
            r"weighting is 50, but must be a weighting such as FedAUWeighting\(cutoff=50\).",
        ),
        ((FedAUWeighting,), {}, "weighting is <class"),
        ((), {"report": ("num-examples",)}, "must be without the example count"),
    ],
)
def test_wrong_arguments(arguments, options, reason):
    with pytest.raises(ValueError, match=reason):
        FedAUMod(*arguments, **options)


def test_two_clients_that_share_a_state_directory_are_told(tmp_path):
    app = training_app(plus_one)
    node_config = {"fedau-state-dir": str(tmp_path)}
    for name in (1, 2):
        request = Request(3, "t1", client=name)
        reply = app(message(request.to_config(), x=np.zeros(1)), context(node_config))
    assert reply.error.reason == (
        "Stale delivery: round 3 was asked for, but this client has already answered round 3 of "
        "attempt 1, under the name 1 instead of 2: if these are two clients, give each its own "
        "fedau-state-dir or its own partition-id."
    )


def test_report_must_be_a_tuple():
    with pytest.raises(ValueError, match="report is 'train_loss', but must be a tuple"):
        FedAUMod(report="train_loss")


def test_two_lines_turn_an_app_into_fedau():
    """A client that comes every third round ends with weight 3, in Flower's own loop."""
    app = training_app(towards([1.0, -1.0]), [FedAUMod(FedAUWeighting(None))])
    grid = Federation(app, 2)

    def next_round(server_round, arrays):
        grid.present = {0, 1} if (server_round + 1) % 3 == 0 else {0}

    FedAU(num_clients=2, server_learning_rate=0.1).start(
        grid, record(x=np.zeros(1)), num_rounds=300, evaluate_fn=next_round
    )
    (node,) = (n for n in grid.contexts if grid.number(n) == 1)
    assert '"weight": 3.0' in grid.contexts[node].state["fedau"]["versions"]
