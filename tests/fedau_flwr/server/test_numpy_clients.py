"""`NumPyClient`s are known from their first answers, and evaluate too."""

import logging

import numpy as np
import pytest
from flwr.app import ArrayRecord
from flwr.client import NumPyClient
from flwr.clientapp import ClientApp

from fedau_flwr import MIFA, FedAU, FedAUMixin, FedAUMod, SecureSum, SecureSumMod
from tests.fedau_flwr.federation import Federation, record, values

TARGETS = [1.0, 3.0, 8.0]


class Plain(NumPyClient):
    def __init__(self, number):
        self.number = number

    def fit(self, parameters, config):
        step = np.asarray(0.1 * (TARGETS[self.number] - parameters[0]), parameters[0].dtype)
        return [parameters[0] + step, *parameters[1:]], 7, {"loss": 1.5}

    def evaluate(self, parameters, config):
        seen = float(parameters[0][0])
        return (
            seen,
            self.number + 1,
            {"number": self.number, "name": "x", "round": config["server-round"]},
        )


class Weighted(FedAUMixin, Plain):
    pass


def client_fn(context):
    return Weighted(context.node_config["partition-id"]).with_context(context).to_client()


def plain_fn(context):
    return Plain(context.node_config["partition-id"]).to_client()


APPS = {
    "mixin": lambda: ClientApp(client_fn),
    "mod": lambda: ClientApp(plain_fn, mods=[FedAUMod()]),
}


@pytest.mark.parametrize("app", APPS)
@pytest.mark.parametrize("method", [FedAU, MIFA])
def test_no_flag_is_needed_and_changes_nothing(app, method, caplog):
    caplog.set_level(logging.INFO, "flwr")
    ends = []
    for options in ({"numpy_clients": True}, {}):
        grid = Federation(APPS[app](), 3)
        strategy, model = method(3, **options), record(x=np.zeros(2), y=np.ones(1, np.int64))
        for r, present in enumerate([{0, 1, 2}, {0}, {1, 2}, {0, 2}], 1):
            grid.present = present
            model = grid.play(strategy, r, model)
            assert strategy.last_round.counted == len(present)
        ends.append(values(model))
    assert ends[0]["x"].tobytes() == ends[1]["x"].tobytes()
    assert list(ends[1]) == ["x", "y"]
    assert caplog.text.count("The clients are NumPyClients, so messages have their records") == 1


def test_under_a_secure_sum_the_second_round_is_the_first_that_counts():
    grid = Federation(ClientApp(plain_fn, mods=[SecureSumMod(), FedAUMod()]), 3)
    strategy, model = FedAU(3, summation=SecureSum()), record(x=np.zeros(2))
    model = grid.play(strategy, 1, model)
    assert strategy.last_round.counted == 0
    model = grid.play(strategy, 2, model)
    assert strategy.last_round.counted == 3
    np.testing.assert_allclose(values(model)["x"], 0.4, atol=1e-5)


@pytest.mark.parametrize("flag", [True, False])
def test_numpy_clients_evaluate(flag):
    grid = Federation(ClientApp(client_fn), 3)
    strategy = FedAU(3, numpy_clients=flag, fraction_evaluate=1.0)
    result = strategy.start(grid, ArrayRecord([np.zeros(1)]), num_rounds=2)
    metrics = result.evaluate_metrics_clientapp[2]
    assert set(metrics) == {"loss", "number", "round"}
    assert metrics["loss"] == pytest.approx(values(result.arrays)["0"][0])
    assert metrics["number"] == pytest.approx((0 * 1 + 1 * 2 + 2 * 3) / 6)
    assert metrics["round"] == 2


def test_an_app_of_the_message_api_that_is_asked_as_numpy_clients_is_told(caplog):
    from tests.fedau_flwr.federation import towards, training_app

    grid = Federation(training_app(towards([1.0])), 1)
    grid.play(FedAU(1, numpy_clients=True), 1, record(x=np.zeros(1)))
    assert "an app of the Message API a strategy without numpy_clients=True" in caplog.text
