"""The node config decides what leaves a node, whatever the run config and messages say."""

import hashlib
import shutil
import sys
from importlib import import_module

import numpy as np
import pytest
from flwr.app import ConfigRecord, Context, Error, Message, MessageType, RecordDict
from flwr.client import NumPyClient
from flwr.clientapp import ClientApp
from flwr.common.constant import ErrorCode

from fedau_flwr import (
    FedAU,
    FedAUMixin,
    FedAUMod,
    GaussianPrivacy,
    SecureSum,
    SecureSumMod,
    _flower,
)
from fedau_flwr.client import guard
from fedau_flwr.client.apps import running_app
from fedau_flwr.client.own_budget import OwnBudget
from fedau_flwr.client.policy import NodePolicy
from fedau_flwr.client.preparation import PREPARATION, Preparation
from fedau_flwr.client.state_directory import describe
from fedau_flwr.secure import Exchange, FixedPoint
from fedau_flwr.secure.app_reply import APP_FAILED
from fedau_flwr.secure.mod import RECORD
from fedau_flwr.testing.in_process_grid import InProcessGrid
from fedau_flwr.wire.records import encode
from fedau_flwr.wire.requests import Refusal, Request
from tests.deployment.conftest import APP

CLIENTS = 4
SECRET = "blood type of patient 17"


def context(**node_config):
    settings = {key.replace("_", "-"): value for key, value in node_config.items()}
    return Context(1, 2, settings, RecordDict(), {})


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ({"fedau_require_secure": "yes"}, "fedau-require-secure is 'yes', but must be true or fal"),
        ({"fedau_required_secure": True}, "must be 'fedau-require-secure'"),
        ({"fedau_min_noise_multiplyer": 1.0}, "must be 'fedau-min-noise-multiplier'"),
        ({"fedau_require_secure": True}, "fedau-state-dir is missing, but must be in the node"),
        ({"fedau_epsilon": 8.0}, "fedau-state-dir is missing, but must be in the node"),
        ({"fedau_epsilon": -1.0}, "fedau-epsilon is -1.0, but must be a number >= 0."),
        ({"fedau_colluding": 1.5}, "fedau-colluding is 1.5, but must be an integer >= 0."),
        ({"fedau_min_cohort": True}, "fedau-min-cohort is True, but must be an integer >= 0."),
        ({"fedau_allow": True}, "fedau-allow is True, but must be names with commas"),
        (
            {"fedau_allow_apps": "abc"},
            "one of fedau-allow-apps is 'abc', but must be SHA-256 in 64",
        ),
        (
            {"fedau_epsilon": 8, "fedau_delta": 1, "fedau_state_dir": "x"},
            "fedau-delta is 1.0, but must be strictly between 0 and 1.",
        ),
    ],
)
def test_a_policy_that_cannot_be_read_lets_nothing_out(config, sentence):
    with pytest.raises(Refusal, match=sentence):
        NodePolicy.of(context(**config))
    reply = app_of(SecureSumMod(), FedAUMod())(train_message(), context(**config))
    assert sentence.rstrip(".") in reply.error.reason


def test_keys_of_others_are_no_misspelt_ones():
    policy = NodePolicy.of(
        context(fedau_group="a", fedau_allow_import="b", fedau_roster="c", fedau_separation=3)
    )
    assert policy == NodePolicy()
    assert NodePolicy.of(context(fedau_allow="evaluate, query")).allow == {"evaluate", "query"}


def app_of(*mods):
    app = ClientApp(mods=list(mods))

    @app.train()
    def train(message: Message, context: Context) -> Message:
        x = message.content["arrays"]["x"].numpy()
        return Message(RecordDict({"arrays": encode({"x": x + 0.25})}), reply_to=message)

    def leak(message: Message, context: Context) -> Message:
        if "fail" in message.content["config"]:
            raise ValueError(SECRET)
        if "error" in message.content["config"]:
            return Message(Error(ErrorCode.UNKNOWN, SECRET), reply_to=message)
        return Message(RecordDict({"m": ConfigRecord({"secret": SECRET})}), reply_to=message)

    app.evaluate()(leak)
    app.query()(leak)
    return app


def any_message(kind, config=(), node=2):
    content = RecordDict({"config": ConfigRecord(dict(config))})
    if kind == MessageType.TRAIN:
        content["arrays"] = encode({"x": np.zeros(4, np.float32)})
    message = Message(content, dst_node_id=node, message_type=kind)
    message.metadata.__dict__["_message_id"] = "1"
    return message


def train_message():
    return any_message(MessageType.TRAIN, Request(1, "training").to_config())


@pytest.fixture(autouse=True)
def identity():
    InProcessGrid(app_of(), 0)


def strict(tmp_path, **more):
    return context(fedau_require_secure=True, fedau_state_dir=str(tmp_path), **more)


@pytest.mark.parametrize("mods", [[FedAUMod()], [SecureSumMod(), FedAUMod()], [SecureSumMod()]])
def test_nothing_leaves_in_clear_where_the_owner_says_so(mods, tmp_path):
    app, where = app_of(*mods), strict(tmp_path)
    reply = app(train_message(), where)
    assert reply.has_error()
    assert "clear" in reply.error.reason or "secure sums only" in reply.error.reason
    for kind in (MessageType.EVALUATE, MessageType.QUERY, "query.default"):
        reply = app(any_message(kind), where)
        assert "fedau-require-secure is true on this node" in reply.error.reason
    allowed = strict(tmp_path, fedau_allow="evaluate")
    assert not app(any_message(MessageType.EVALUATE), allowed).has_error()
    assert app(any_message(MessageType.QUERY), allowed).has_error()


@pytest.mark.parametrize("kind", ["get_parameters", "get_properties", "reconnect", "evaluate"])
def test_older_messages_are_no_way_around(kind, tmp_path):
    class Legacy(FedAUMixin, NumPyClient):
        def get_properties(self, config):
            return {"secret": SECRET}

        def get_parameters(self, config):
            return [np.array([17.0])]

    app = ClientApp(lambda where: Legacy().to_client(), mods=[SecureSumMod()])
    reply = app(any_message(kind), strict(tmp_path))
    assert f"answers no {kind!r} message in clear" in reply.error.reason


@pytest.mark.parametrize("way", ["fail", "error"])
@pytest.mark.parametrize("kind", [MessageType.EVALUATE, MessageType.QUERY])
def test_words_of_the_app_do_not_leave(kind, way):
    message = any_message(kind, {way: True})
    reply = app_of(SecureSumMod(), FedAUMod())(message, context())
    assert reply.error.reason == APP_FAILED
    assert reply.error.code == ErrorCode.CLIENT_APP_RAISED_EXCEPTION


def test_words_of_a_failing_training_do_not_leave(tmp_path):
    app = ClientApp(mods=[SecureSumMod(), FedAUMod()])

    @app.train()
    def train(message: Message, where: Context) -> Message:
        raise ValueError(SECRET)

    grid = InProcessGrid(app, CLIENTS)
    seen = []
    answer = grid._answer
    grid._answer = lambda message: seen.append(answer(message)) or seen[-1]
    one_round(FedAU(CLIENTS, summation=SecureSum(exchange_timeout=0.02)), grid)
    reasons = {reply.error.reason for reply in seen if reply.has_error()}
    assert reasons == {APP_FAILED}


def one_round(strategy, grid, number=1):
    model = encode({"x": np.zeros(4, np.float32)})
    messages = strategy.configure_train(number, model, ConfigRecord(), grid)
    replies = list(grid.send_and_receive(messages))
    arrays, _ = strategy.aggregate_train(number, list(replies))
    return arrays["x"].numpy(), {r.error.reason for r in replies if r.has_error()}


class Legacy(FedAUMixin, NumPyClient):
    def fit(self, parameters, config):
        return [parameters[0] + np.float32(0.25)], 17, {}


def test_a_second_config_does_not_get_past_the_least_noise():
    """A decoy promises the noise, and the config that a NumPyClient reads has none."""
    app = ClientApp(
        lambda where: Legacy().with_context(where).to_client(),
        mods=[SecureSumMod(min_noise_multiplier=1.0)],
    )
    decoy = Preparation(norm=1.0, noise_std=1.0, grid=FixedPoint()).to_config()

    class Cheat(InProcessGrid):
        def push_messages(self, messages):
            messages = list(messages)
            for message in messages:
                fields = message.content.config_records.get(RECORD, {})
                if fields.get("exchange") == Exchange.MASKED:
                    records = [message.content.pop(name) for name in list(message.content)]
                    names = ["fitins.parameters", "fitins.config", RECORD]
                    message.content["a"] = ConfigRecord(decoy)
                    message.content.update(dict(zip(names, records, strict=True)))
            return super().push_messages(messages)

    grid = Cheat(app, CLIENTS)
    strategy = FedAU(CLIENTS, numpy_clients=True, summation=SecureSum(exchange_timeout=0.02))
    model, reasons = one_round(strategy, grid)
    assert reasons == {"refused: the model or the config is not the one that this round is about"}
    assert not model.any()


def test_the_node_config_raises_what_the_app_asks_for():
    def refused(privacy=None, **node_config):
        settings = {key.replace("_", "-"): value for key, value in node_config.items()}
        grid = InProcessGrid(app_of(SecureSumMod(), FedAUMod()), CLIENTS, node_config=settings)
        summation = SecureSum(fixed_point=FixedPoint(value_range=64.0), exchange_timeout=0.02)
        return one_round(FedAU(CLIENTS, summation=summation, privacy=privacy), grid)[1]

    assert not refused()
    (reason,) = refused(fedau_min_noise_multiplier=2.0, privacy=GaussianPrivacy(1.0, 1.0))
    assert "below this client's min_noise_multiplier=2.0" in reason
    assert not refused(fedau_min_noise_multiplier=2.0, privacy=GaussianPrivacy(1.0, 2.0))
    (reason,) = refused(fedau_colluding=3, privacy=GaussianPrivacy(1.0, 1.0))
    assert "survivors is 3, but must be more than colluding, 3" in reason
    # Refused before there is a train message.
    grid = InProcessGrid(
        app_of(SecureSumMod(), FedAUMod()), CLIENTS, node_config={"fedau-min-cohort": 5}
    )
    assert not one_round(FedAU(CLIENTS, summation=SecureSum(exchange_timeout=0.02)), grid)[0].any()


def budgeted(tmp_path, epsilon):
    node_config = {"fedau-state-dir": str(tmp_path), "fedau-epsilon": epsilon}
    return InProcessGrid(app_of(SecureSumMod(), FedAUMod()), CLIENTS, node_config=node_config)


def test_a_client_stops_when_its_own_budget_is_spent(tmp_path):
    """Over trainings and restarts, and although the server has no budget at all."""
    summation = SecureSum(fixed_point=FixedPoint(value_range=64.0), exchange_timeout=0.02)
    counted = []
    for number in (1, 2, 3):
        # A new training and a new process each time: the data are the same.
        strategy = FedAU(CLIENTS, summation=summation, privacy=GaussianPrivacy(1.0, 2.0))
        model, reasons = one_round(strategy, budgeted(tmp_path, 3.2), number)
        counted.append(bool(model.any()))
        # By the exact formula for μ² = 2/4 and δ = 1e-5; a third round would make it 3.71.
        for reason in reasons:
            assert "fedau-epsilon is 3.2 on this node, of which 2.943 is spent" in reason
    assert counted == [True, True, False]
    (book,) = (tmp_path / "all.budget" / "client-0").glob("spent")
    assert book.read_text() == "2.0\n2.0\n"
    assert book.stat().st_mode & 0o777 == 0o600
    assert "all trainings, client client-0: spent noise multipliers 2.0 (2 times)." in describe(
        tmp_path
    )


@pytest.mark.parametrize("text", ["rubbish\n", "0\n", "2.0\n2.0 2.0\n"])
def test_a_damaged_book_keeps_the_client_out(tmp_path, text):
    where = context(fedau_epsilon=8.0, fedau_state_dir=str(tmp_path))
    budget = OwnBudget.of(where, NodePolicy.of(where))
    budget.charge(2.0)
    next(tmp_path.rglob("spent")).write_text(text)
    for refused in (budget.check, budget.charge):
        with pytest.raises(Refusal, match="has to hold a noise multiplier per line"):
            refused(2.0)
    assert next(tmp_path.rglob("spent")).read_text() == text


def test_a_budget_needs_noise_of_the_clients_own(tmp_path):
    summation = SecureSum(exchange_timeout=0.02)
    _, reasons = one_round(FedAU(CLIENTS, summation=summation), budgeted(tmp_path, 8.0))
    assert reasons == {
        "refused: fedau-epsilon is 8 on this node, of which 0 is spent: there is no room for a "
        "noise multiplier of 0"
    }
    where = context(fedau_epsilon=8.0, fedau_state_dir=str(tmp_path))
    reply = app_of(FedAUMod())(train_message(), where)
    assert "which counts only noise of its own" in reply.error.reason


def unpacked(tmp_path, monkeypatch):
    """Install the bundle of a real app as Flower's ClientApp process does."""
    monkeypatch.setenv("FLWR_HOME", str(tmp_path))
    bundle = _flower.build_fab_from_disk(APP)
    path = _flower.install_from_fab(bundle, skip_prompt=True)
    monkeypatch.setattr(sys, "path", [*sys.path, str(path)])
    running_app.cache_clear()
    return path, hashlib.sha256(bundle).hexdigest()


def test_an_app_is_known_by_the_hash_of_its_bundle(tmp_path, monkeypatch, request):
    request.addfinalizer(running_app.cache_clear)
    path, digest = unpacked(tmp_path, monkeypatch)
    assert running_app() == digest
    app = app_of(SecureSumMod(), FedAUMod())
    other = "0" * 64
    allowed = context(fedau_allow_apps=f"{other},{digest.upper()}")
    assert not app(any_message(MessageType.QUERY), allowed).has_error()
    refused = app(any_message(MessageType.QUERY), context(fedau_allow_apps=other))
    assert f"allows 1 apps, but not the one that runs here, {digest}" in refused.error.reason
    with next(path.rglob("client_app.py")).open("a") as file:
        file.write("# changed\n")
    running_app.cache_clear()
    assert app(any_message(MessageType.QUERY), allowed).has_error()
    shutil.rmtree(path)
    running_app.cache_clear()
    monkeypatch.setattr(sys, "path", [])
    assert running_app() is None
    reply = app_of(FedAUMod())(train_message(), allowed)
    assert "which was not unpacked from a bundle" in reply.error.reason


@pytest.mark.parametrize("allowed", [True, False])
def test_no_byte_of_a_bundle_that_is_not_allowed_is_unpacked(allowed, monkeypatch):
    bundle = b"bytes of a bundle"
    digest = hashlib.sha256(bundle if allowed else b"another").hexdigest()
    installed = []

    def process():
        _, where, _, fab = _flower_module().pull_task_input("client")
        _flower_module().install_from_fab(fab, skip_prompt=True)
        installed.append(where)

    module = _flower_module()
    pulled = ("message", context(fedau_allow_apps=digest), "run", bundle)
    monkeypatch.setattr(module, "pull_task_input", lambda client: pulled)
    monkeypatch.setattr(module, "install_from_fab", lambda given, **options: given)
    monkeypatch.setattr(_flower, "pull_task_input", module.pull_task_input, raising=False)
    monkeypatch.setattr(_flower, "install_from_fab", module.install_from_fab, raising=False)
    monkeypatch.setattr(_flower, "flwr_clientapp", process, raising=False)
    if allowed:
        guard.main()
    else:
        with pytest.raises(Refusal, match="but not the one that runs here"):
            guard.main()
    assert bool(installed) == allowed


def _flower_module():
    return import_module(_flower._HOMES["install_from_fab"])


def test_what_the_server_says_about_colluders_travels():
    assert Preparation.from_config(Preparation(colluding=2).to_config()).colluding == 2
    with pytest.raises(Refusal, match=PREPARATION):
        Preparation.from_config({PREPARATION: '{"colluding": -1}'})
