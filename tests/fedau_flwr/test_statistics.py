"""Batch normalisation: its statistics are averaged over the participants, without weights."""

import re

import numpy as np
import pytest
import torch
from flwr.app import ArrayRecord, Message, RecordDict
from flwr.client import NumPyClient
from flwr.clientapp import ClientApp
from flwr.common import Code, FitRes, Status, ndarrays_to_parameters, parameters_to_ndarrays
from torch import nn

from fedau_flwr import (
    MIFA,
    FedAU,
    FedAUAdam,
    FedAUMod,
    FedVARP,
    GaussianPrivacy,
    SecureSum,
    SecureSumMod,
    legacy,
)
from fedau_flwr.client.identity import answer_identity
from fedau_flwr.statistics import Statistics
from fedau_flwr.wire.fixed_point import FixedPoint
from tests.fedau_flwr.federation import Federation, record, towards, training_app, values
from tests.fedau_flwr.test_legacy import Proxy

SCALES = (10.0, 10.0, 10.0, 1.0)
"""Clients whose inputs have this scale; the last one is rare, and its variance far smaller."""
RARE = {3: 30}
ROUNDS = 61


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 1))


def train(state, client, server_round):
    """Train one client's network for three steps and return its state."""
    model = network()
    model.load_state_dict(state)
    model.train()
    generator = torch.Generator().manual_seed(1000 * client + server_round)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(3):
        inputs = SCALES[client] * torch.randn(32, 2, generator=generator)
        loss = (model(inputs) - inputs.sum(1, keepdim=True) / SCALES[client]).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return model.state_dict()


def torch_app(mods):
    app = ClientApp(mods=mods)

    @app.train()
    def run(message, context):
        arrays, config = message.content["arrays"], message.content["config"]
        state = arrays.to_torch_state_dict()
        trained = train(state, context.node_config["partition-id"], config["server-round"])
        return Message(RecordDict({"arrays": ArrayRecord(trained)}), reply_to=message)

    return app


def play(strategy, mods=None, rounds=ROUNDS):
    """Run rounds in which the rare client comes in one of thirty, and return all models."""
    grid = Federation(torch_app([FedAUMod()] if mods is None else mods), 4)
    model = ArrayRecord(network().state_dict())
    models = []
    for r in range(1, rounds + 1):
        grid.present = {n for n in range(4) if r % RARE.get(n, 1) == 0}
        model = grid.play(strategy, r, model)
        models.append(values(model))
    return models


def variances(models):
    return np.array([model["1.running_var"].min() for model in models])


class Weighted(Statistics):
    """What would be without them: every array has the client's weight."""

    def positions(self, model):
        return ()


def test_a_rare_client_of_another_scale_makes_weighted_variances_negative_but_not_ours():
    strategy = FedAU(4)
    strategy.statistics = Weighted()
    assert variances(play(strategy)).min() < 0  # the case that this is for
    models = play(FedAU(4))
    assert variances(models).min() > 0
    assert all(np.isfinite(value).all() for value in models[-1].values())


def test_they_are_the_participants_mean_and_all_else_is_weighted():
    states = [network().state_dict()]
    states.append(train(states[0], 0, 1))
    states.append(train(states[0], 3, 1))
    app = torch_app([FedAUMod()])
    grid = Federation(app, 4)
    grid.present = {0, 3}
    strategy = FedAU(8, server_learning_rate=0.5)
    after = values(grid.play(strategy, 1, ArrayRecord(states[0])))
    for name in after:
        x, a, b = (state[name].double().numpy() for state in states)
        if name.endswith("num_batches_tracked"):
            expected = x
        elif "running" in name:
            expected = (a + b) / 2
        else:
            expected = x + 0.5 / 8 * ((a - x) + (b - x))
        np.testing.assert_allclose(after[name], expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("method", [MIFA, FedVARP, FedAUAdam])
def test_no_method_sees_them(method):
    """Whatever a method does, the statistics end where FedAU's end if it trains the same."""
    states = [network().state_dict()]
    states.append(train(states[0], 1, 1))
    grid = Federation(torch_app([FedAUMod()]), 4)
    grid.present = {1}
    strategy = method(4)
    model = grid.play(strategy, 1, ArrayRecord(states[0]))
    for name in ("1.running_mean", "1.running_var"):
        np.testing.assert_allclose(values(model)[name], states[1][name].numpy(), rtol=1e-6)
    again = values(grid.play(strategy, 2, model))
    own = train({n: torch.from_numpy(v.copy()) for n, v in values(model).items()}, 1, 2)
    np.testing.assert_allclose(again["1.running_var"], own["1.running_var"].numpy(), rtol=1e-5)
    state = strategy.state_dict()
    assert "1.running_var" not in state.get("mean", {})


def test_over_secure_sums_as_well():
    grid = FixedPoint(value_range=512.0, bits=25, max_cohort=20)
    secure = FedAU(4, summation=SecureSum(fixed_point=grid, seed=1))
    mods = [SecureSumMod(), FedAUMod()]
    plain, masked = play(FedAU(4), rounds=31), play(secure, mods, rounds=31)
    assert secure.last_round.counted == 3
    assert variances(masked).min() > 0
    np.testing.assert_allclose(
        masked[-1]["1.running_var"], plain[-1]["1.running_var"], rtol=0.02, atol=0.01
    )


def test_noise_does_not_make_a_variance_negative():
    strategy = FedAU(4, privacy=GaussianPrivacy(norm=1.0, noise_multiplier=20.0))
    models = play(strategy, rounds=5)
    assert variances(models).min() == 0.0


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("bn1.running_mean", True),
        ("layers.3.running_var", True),
        ("batch_normalization/moving_mean:0", True),
        ("batch_normalization_2/moving_variance", True),
        ("moving_variance", True),
        ("batch_stats/BatchNorm_0/mean", True),
        ("batch_stats.bn.var", True),
        ("bn1.weight", False),
        ("running_meaning", False),
        ("mean", False),
        ("params/var", False),
    ],
)
def test_they_are_known_by_their_names(name, found):
    model = {"a": np.ones(1), name: np.ones(3, np.float32)}
    assert Statistics().positions(model) == ((1,) if found else ())


def test_without_names_they_are_known_by_their_form_and_sign():
    arrays = [value.numpy() for value in network().state_dict().values()]
    model = {str(n): value for n, value in enumerate(arrays)}
    assert Statistics().positions(model) == (4, 5)
    arrays[5] = -arrays[5]
    assert Statistics().positions({str(n): value for n, value in enumerate(arrays)}) == ()
    assert Statistics().positions({f"a{n}": value for n, value in enumerate(arrays)}) == ()


def test_others_can_be_named():
    model = {"ema.a": np.ones(2), "ema.b": np.ones(2), "x": np.ones(2), "n": np.ones(1, int)}
    assert Statistics(("ema.*",)).positions(model) == (0, 1)
    assert Statistics(["x"]).positions(model) == (2,)
    with pytest.raises(ValueError, match=r"^unweighted has 'n', but must name .*: ema.a, ema.b, x"):
        Statistics(("x", "n")).positions(model)
    grid = Federation(training_app(towards([1.0] * 4, 1.0)), 2)
    model = grid.play(FedAU(4, unweighted=("x",)), 1, record(x=np.zeros(1), y=np.zeros(1)))
    assert values(model)["x"] == 1.0  # and not 2/4


def test_a_model_without_them_is_asked_for_as_ever():
    grid = Federation(training_app(towards([1.0])), 1)
    grid.play(FedAU(1), 1, record(x=np.zeros(1)))
    assert "fedau-unweighted" not in grid.received[0].content["config"]


@pytest.mark.parametrize("said", ["7", "-1", "1,", "a"])
def test_positions_that_cannot_be_are_refused(said, caplog):
    app = ClientApp(mods=[spoil(said), FedAUMod()])

    @app.train()
    def run(message, context):
        return Message(message.content, reply_to=message)

    grid = Federation(app, 1)
    grid.play(FedAU(1), 1, record(x=np.zeros(1)))
    assert re.search(r"fedau-unweighted is .*, but must (be|list) positions", caplog.text)


def spoil(said):
    def mod(message, context, call_next):
        message.content["config"]["fedau-unweighted"] = said
        return call_next(message, context)

    return mod


class TorchClient(NumPyClient):
    """As most apps have it: the list of a state dict's arrays."""

    def __init__(self, number):
        self.number = number

    def fit(self, parameters, config):
        state = {
            name: torch.from_numpy(np.array(value))
            for name, value in zip(network().state_dict(), parameters, strict=True)
        }
        trained = train(state, self.number, config["server-round"])
        return [value.numpy() for value in trained.values()], 9, {}


def test_numpy_clients_get_the_same_model():
    app = ClientApp(
        lambda context: TorchClient(context.node_config["partition-id"]).to_client(),
        mods=[answer_identity, FedAUMod()],
    )
    grid = Federation(app, 4)
    model = ArrayRecord([value.numpy() for value in network().state_dict().values()])
    strategy = FedAU(4)
    for r in range(1, 4):
        model = grid.play(strategy, r, model)
    ours = play_all(FedAU(4), 3)
    for mine, named in zip(values(model).values(), ours.values(), strict=True):
        np.testing.assert_array_equal(mine, named)


def play_all(strategy, rounds):
    grid = Federation(torch_app([FedAUMod()]), 4)
    model = ArrayRecord(network().state_dict())
    for r in range(1, rounds + 1):
        model = grid.play(strategy, r, model)
    return values(model)


def test_the_older_strategy_averages_them_too():
    from flwr.server.client_manager import SimpleClientManager

    strategy = legacy.FedAU(8)
    start = [value.numpy() for value in network().state_dict().values()]
    manager = SimpleClientManager()
    for number in (1, 2):
        manager.register(Proxy(str(number), None))
    asked = strategy.configure_fit(1, ndarrays_to_parameters(start), manager)
    assert {ins.config["fedau-unweighted"] for _, ins in asked} == {"4,5"}
    ok = Status(Code.OK, "")
    change = [np.ones_like(value) for value in start]
    results = [(p, FitRes(ok, ndarrays_to_parameters(change), 1, {})) for p, _ in asked]
    parameters, _ = strategy.aggregate_fit(1, results, [])
    after = parameters_to_ndarrays(parameters)
    np.testing.assert_allclose(after[5], start[5] + 1)
    np.testing.assert_allclose(after[0], start[0] + 2 / 8)
