"""A method of a user's own: both halves, several parts, a memory, a start of its own."""

import textwrap
from dataclasses import dataclass

import numpy as np
import pytest
from flwr.app import ConfigRecord
from flwr.client import NumPyClient
from flwr.clientapp import ClientApp

from fedau_flwr import (
    FedAUMixin,
    FedAUMod,
    GaussianPrivacy,
    SecureSum,
    SecureSumMod,
    SumStrategy,
    Transform,
    UnitWeighting,
)
from fedau_flwr.arrays import added, difference, moved, scaled
from fedau_flwr.client.transform import NextMemory, Turn, named_transform
from fedau_flwr.privacy import l2_norm
from fedau_flwr.wire.parts import scalar
from fedau_flwr.wire.requests import Refusal
from tests.fedau_flwr.federation import Federation, record, training_app, values

CLIENTS = 4
RNG = np.random.default_rng(11)
PATH = RNG.random((12, CLIENTS)) < 0.6
LOST = RNG.random((12, CLIENTS)) < 0.2


@dataclass(frozen=True)
class Stale(Transform):
    """Two model-shaped parts, one number, and a memory of the last update."""

    name = "stale"
    parts = ("fresh", "change")
    scalars = ("one",)
    remembers = True

    beta: float = 0.5

    def contribute(self, update, turn):
        last = turn.memory.get("h", {})
        return {
            "fresh": difference(update, scaled(last, self.beta)),
            "change": difference(update, last),
            "one": scalar(1.0),
        }

    def remember(self, memory, sent):
        return {"h": added(memory.get("h"), sent["change"])}


class Sums(Transform):
    remembers = True
    sums = (("h", "update"),)

    def contribute(self, update, turn):
        return {"update": update}


class Doubled(Sums):
    def remember(self, memory, sent):
        return {"h": scaled(super().remember(memory, sent)["h"], 2.0)}


@pytest.mark.parametrize(
    ("transform", "expected"), [(Sums(), [4.0, 6.0]), (Doubled(), [8.0, 12.0])]
)
def test_the_next_memory_is_the_sum_of_its_terms(transform, expected):
    before, sent = {"x": np.array([1.0, 2.0])}, {"x": np.array([3.0, 4.0])}
    following = NextMemory(transform, {"h": before, "other": sent}, {"update": sent})
    np.testing.assert_array_equal(following()["h"]["x"], expected)
    terms = following.terms()
    np.testing.assert_array_equal(sum(arrays["x"] for arrays in terms["h"]), expected)
    assert terms.keys() == following().keys()
    first = NextMemory(transform, {}, {"update": sent}).terms()["h"]
    assert len(first) == 1


class StaleMethod(SumStrategy):
    transform = Stale(0.25)
    stale = 0.0
    heads = 0.0

    def step(self, model, sums, participants):
        name = next(iter(model))  # NumPyClients have numbers in place of names
        step = self.stale * self.transform.beta * np.ones(2)
        if sums is not None:
            step = step + sums["fresh"][name] / self.num_clients
            self.stale = self.stale + sums["change"][name] / self.num_clients
            self.heads += float(sums["one"][""])
        return moved(model, {name: step}, self.server_learning_rate)


def update(client, x, server_round):
    return 0.1 * (np.cos(client) - x) + 0.01 * np.sin(server_round * (client + 1))


def train(client, arrays, server_round):
    return {**arrays, "x": arrays["x"] + update(client, arrays["x"], server_round)}


def by_hand():
    """The formula, with everything in one place."""
    x, h, stale = np.zeros(2), np.zeros((CLIENTS, 2)), np.zeros(2)
    for t, here in enumerate(PATH & ~LOST, 1):
        new = {n: update(n, x, t) for n in np.flatnonzero(here)}
        x = x + 0.25 * stale + sum((new[n] - 0.25 * h[n] for n in new), np.zeros(2)) / CLIENTS
        stale = stale + sum((new[n] - h[n] for n in new), np.zeros(2)) / CLIENTS
        for n, value in new.items():
            h[n] = value
    return x


def play(strategy, app):
    grid = Federation(app, CLIENTS)
    model = record(x=np.zeros(2), counter=np.array(3))
    for t, (here, lost) in enumerate(zip(PATH, LOST, strict=True), 1):
        grid.present = set(np.flatnonzero(here).tolist())
        grid.lost = set(np.flatnonzero(lost).tolist())
        model = grid.play(strategy, t, model)
    return values(model)["x"]


def own_mod(**options):
    return FedAUMod(UnitWeighting(), transforms=[Stale], **options)


def test_an_own_method_equals_its_formula_over_lost_replies():
    strategy = StaleMethod(CLIENTS)
    x = play(strategy, training_app(train, [own_mod()]))
    np.testing.assert_allclose(x, by_hand(), atol=1e-12)
    assert strategy.heads == (PATH & ~LOST).sum()


def test_an_own_method_under_a_secure_sum():
    # All of them, since a sum over fewer than three is void.
    global PATH, LOST
    path, lost = PATH, LOST
    PATH, LOST = np.ones((5, CLIENTS), bool), np.zeros((5, CLIENTS), bool)
    try:
        strategy = StaleMethod(CLIENTS, summation=SecureSum())
        x = play(strategy, training_app(train, [SecureSumMod(), own_mod()]))
        np.testing.assert_allclose(x, by_hand(), atol=1e-4)
    finally:
        PATH, LOST = path, lost


def test_numpy_clients_send_all_parts_in_one_list():
    class Client(FedAUMixin, NumPyClient):
        fedau_weighting = UnitWeighting()
        fedau_transforms = (Stale,)

        def __init__(self, number):
            self.number = number

        def fit(self, parameters, config):
            x, counter = parameters
            return [x + update(self.number, x, config["server-round"]), counter], 9, {}

    def client_fn(context):
        return Client(context.node_config["partition-id"]).with_context(context).to_client()

    strategy = StaleMethod(CLIENTS, numpy_clients=True)
    x = play(strategy, ClientApp(client_fn=client_fn))
    np.testing.assert_allclose(x, by_hand(), atol=1e-12)


def test_one_norm_holds_over_all_parts():
    sent = []

    class Watching(StaleMethod):
        def aggregate_train(self, server_round, replies):
            for reply in replies:
                own = [reply.content["arrays"]["x"].numpy()]
                own += [a.numpy() for a in reply.content["fedau.parts"].values()]
                sent.append(l2_norm(own))
            return super().aggregate_train(server_round, replies)

    privacy = GaussianPrivacy(norm=0.05, noise_multiplier=1e-6)
    play(Watching(CLIENTS, privacy=privacy), training_app(train, [own_mod()]))
    assert max(sent) == pytest.approx(0.05, rel=1e-6)


def test_a_client_that_does_not_know_the_transform_refuses(caplog):
    strategy = StaleMethod(CLIENTS)
    play(strategy, training_app(train, [FedAUMod()]))
    assert strategy.heads == 0
    assert (
        "fedau-transform names 'stale', but must name one that this client knows (change, fedawe, "
        "fedstale, mimic, weighted)" in caplog.text
    )


class OwnStart(Transform):
    """Trains from the client's own model, whatever the server has."""

    name = "own-start"
    remembers = True

    def start(self, model, turn):
        return {**model, "x": turn.memory["own"]["x"]} if turn.memory else model

    def contribute(self, update, turn):
        return {"update": update}

    def remember(self, memory, sent):
        return {"own": added(memory.get("own"), sent["update"])}


def test_a_transform_may_choose_what_training_starts_from():
    starts = []

    class Still(SumStrategy):
        transform = OwnStart()

        def step(self, model, sums, participants):
            return model

    def climb(client, arrays, server_round):
        starts.append(arrays["x"].tolist())
        return {**arrays, "x": arrays["x"] + 1}

    grid = Federation(training_app(climb, [FedAUMod(transforms=[OwnStart])]), 1)
    model = record(x=np.zeros(1))
    strategy = Still(1)
    for t in (1, 2, 3):
        model = grid.play(strategy, t, model)
    assert starts == [[0.0], [1.0], [2.0]]
    assert values(model)["x"] == 0.0


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("stale", "fedau-transform is 'stale', but must be a JSON object with a name."),
        ("[1]", "must be a JSON object with a name"),
        ('{"name": "no"}', r"names 'no', but must name one that this client knows"),
        ('{"name": "stale", "gamma": 1}', "must have the parameters of stale"),
    ],
)
def test_odd_names_are_refused_in_a_sentence(text, sentence):
    with pytest.raises(Refusal, match=sentence):
        named_transform(text, (Stale,))


def test_parameters_travel():
    assert named_transform(Stale(0.75).to_text(), (Stale,)) == Stale(0.75)


def test_only_classes_of_transforms_are_taken():
    with pytest.raises(ValueError, match="must be a class derived from Transform"):
        FedAUMod(transforms=[Stale()])


def test_the_example_of_the_documentation_runs():
    """Both halves as they stand there, against the formula x += η/N Σ ω sign(Δ)."""
    example = SumStrategy.__doc__.partition("::\n")[2].partition("Parameters")[0]
    names = {"np": np, "SumStrategy": SumStrategy, "Transform": Transform}
    exec(textwrap.dedent(example), names)
    mod = FedAUMod(UnitWeighting(), transforms=[names["Signs"]])
    x = play(names["SignSum"](CLIENTS, server_learning_rate=0.5), training_app(train, [mod]))
    expected = np.zeros(2)
    for t, here in enumerate(PATH & ~LOST, 1):
        signs = [np.sign(update(n, expected, t)) for n in np.flatnonzero(here)]
        expected = expected + 0.5 / CLIENTS * sum(signs, np.zeros(2))
    np.testing.assert_allclose(x, expected, atol=1e-12)


def test_a_transform_without_a_name_has_that_of_its_class():
    class Nameless(OwnStart):
        pass

    assert (Nameless.name, OwnStart.name) == ("Nameless", "own-start")
    assert isinstance(named_transform(Nameless().to_text(), (Nameless,)), Nameless)


def test_parts_that_a_transform_did_not_announce_are_refused(caplog):
    class Careless(OwnStart):
        def contribute(self, update, turn):
            return update  # not {"update": update}

    class Still(SumStrategy):
        transform = Careless()

        def step(self, model, sums, participants):
            return model

    play(strategy := Still(CLIENTS), training_app(train, [FedAUMod(transforms=[Careless])]))
    assert set(strategy.ledger.counted.values()) == {0}
    assert "Careless.contribute made the parts ['x'], but must make ['update']." in caplog.text


@pytest.mark.parametrize("wrong", [None, Stale, "stale"])
def test_a_method_needs_an_instance_of_a_transform(wrong):
    class Wrong(StaleMethod):
        transform = wrong

    strategy, grid = Wrong(CLIENTS), Federation(training_app(train), CLIENTS)
    with pytest.raises(ValueError, match=r"transform is .*, but must be an instance of a Trans"):
        strategy.configure_train(1, record(x=np.zeros(2)), ConfigRecord(), grid)


def test_missing_parts_are_rejected(caplog):
    def forgetful(message, context, call_next):
        reply = own_mod()(message, context, call_next)
        del reply.content["fedau.parts"]
        return reply

    strategy = StaleMethod(CLIENTS)
    play(strategy, training_app(train, [forgetful]))
    assert strategy.heads == 0
    assert "parts that differ from the method's in ['change/x', 'one']" in caplog.text


def test_a_turn_has_what_a_transform_may_know():
    turn = Turn(round=7, weight=2.5)
    assert (turn.round, turn.weight, turn.counted, turn.memory) == (7, 2.5, 0, {})
