"""The legacy pair, on Flower's older strategies and its real Ray engine."""

import json
import subprocess
import sys
import tempfile

import numpy as np
import pytest
from flwr.app import Context, RecordDict
from flwr.client import NumPyClient
from flwr.common import (
    Code,
    FitRes,
    Status,
    ndarrays_to_parameters,
    parameters_to_ndarrays,
)
from flwr.server.client_manager import SimpleClientManager
from flwr.server.client_proxy import ClientProxy
from flwr.server.workflow import SecAggPlusWorkflow

from fedau_flwr import FedAUMixin, FedAUWeighting, legacy

TARGETS = np.array([4.0, 0.0, 1.0])


class Client(FedAUMixin, NumPyClient):
    fedau_weighting = FedAUWeighting(None)

    def __init__(self, target):
        self.target = target

    def fit(self, parameters, config):
        return [parameters[0] + 0.1 * (self.target - parameters[0])], 99, {"secret": 1}


class Proxy(ClientProxy):
    """Calls a client in this process, as Flower's own proxies call one elsewhere."""

    def __init__(self, cid, client):
        super().__init__(cid)
        self.client = client

    def fit(self, ins, timeout=None, group_id=None):
        return self.client.fit(ins)

    def get_properties(self, ins, timeout=None, group_id=None):
        raise NotImplementedError

    def get_parameters(self, ins, timeout=None, group_id=None):
        raise NotImplementedError

    def evaluate(self, ins, timeout=None, group_id=None):
        raise NotImplementedError

    def reconnect(self, ins, timeout=None, group_id=None):
        raise NotImplementedError


@pytest.fixture
def proxies():
    return [
        Proxy(
            str(n + 1),
            Client(target).with_context(Context(1, n + 1, {}, RecordDict(), {})).to_client(),
        )
        for n, target in enumerate(TARGETS)
    ]


def play(strategy, proxies, rounds, lost=()):
    parameters = ndarrays_to_parameters([np.full(2, 2.0)])
    for r in range(1, rounds + 1):
        manager = SimpleClientManager()
        for n, proxy in enumerate(proxies):
            if r % (n + 1) == 0:
                manager.register(proxy)
        asked = strategy.configure_fit(r, parameters, manager)
        results = [(proxy, proxy.fit(ins)) for proxy, ins in asked]
        results = [(p, res) for p, res in results if (r, int(p.cid)) not in lost]
        for _, res in results:
            assert (res.num_examples, res.metrics) == (1, {})
        new, _ = strategy.aggregate_fit(r, results[::-1], [])
        parameters = new or parameters
    return parameters_to_ndarrays(parameters)[0]


def formula(rounds, lost=()):
    x = np.full(2, 2.0)
    seen, last = np.zeros(3), np.zeros(3)
    for r in range(1, rounds + 1):
        here = [n for n in range(3) if r % (n + 1) == 0 and (r, n + 1) not in lost]
        weight = np.where(seen > 0, last / np.maximum(seen, 1), 1.0)
        x = x + sum((weight[n] * 0.1 * (TARGETS[n] - x) for n in here), np.zeros(2)) / 3
        for n in here:
            seen[n] += 1
            last[n] = r
    return x


def options():
    return {"num_clients": 3, "min_fit_clients": 1, "min_available_clients": 1}


@pytest.mark.parametrize("lost", [(), ((4, 1), (4, 2), (12, 3), (13, 1))])
def test_equals_the_formula_with_and_without_lost_replies(proxies, lost):
    x = play(legacy.FedAU(**options()), proxies, 20, lost)
    np.testing.assert_allclose(x, formula(20, lost), rtol=0, atol=1e-9)


def test_bad_replies_are_rejected(proxies, caplog):
    strategy = legacy.FedAU(**options())
    manager = SimpleClientManager()
    for proxy in proxies:
        manager.register(proxy)
    manager.register(Proxy("4", None))
    strategy.min_fit_clients = 4
    (good, nan, shape, plain) = strategy.configure_fit(
        1, ndarrays_to_parameters([np.zeros(2)]), manager
    )
    ok = Status(Code.OK, "")

    def reply(array, num_examples=1):
        return FitRes(ok, ndarrays_to_parameters([array]), num_examples, {})

    new, _ = strategy.aggregate_fit(
        1,
        [
            (good[0], reply(np.full(2, 3.0))),
            (nan[0], reply(np.full(2, np.nan))),
            (shape[0], reply(np.zeros(3))),
            (plain[0], reply(np.full(2, 9.0), num_examples=600)),
        ],
        [],
    )
    np.testing.assert_array_equal(parameters_to_ndarrays(new)[0], np.ones(2))
    assert f"client {nan[0].cid}: array 0 with values that are not finite" in caplog.text
    assert f"client {shape[0].cid}: arrays whose shapes differ" in caplog.text
    assert f"client {plain[0].cid}: an unweighted model with num_examples=600" in caplog.text
    assert strategy.ledger.counted[int(nan[0].cid)] == 0


class Reporting(Client):
    fedau_report = ("secret",)


def test_reported_metrics_reach_the_users_function(proxies):
    seen = []

    def mean(metrics):
        seen.extend(metrics)
        return {"secret": sum(n * m["secret"] for n, m in metrics) / len(metrics)}

    strategy = legacy.FedAU(**options(), fit_metrics_aggregation_fn=mean)
    parameters = ndarrays_to_parameters([np.zeros(2)])
    manager = SimpleClientManager()
    for n in range(3):
        client = Reporting(1.0).with_context(Context(1, n + 1, {}, RecordDict(), {}))
        manager.register(Proxy(str(n + 1), client.to_client()))
    asked = strategy.configure_fit(1, parameters, manager)
    _, metrics = strategy.aggregate_fit(1, [(p, p.fit(ins)) for p, ins in asked], [])
    assert metrics == {"secret": 1.0}
    assert seen == [(1, {"secret": 1})] * 3


def test_a_training_that_counts_nobody_says_so(caplog):
    strategy = legacy.FedAU(**options())
    manager = SimpleClientManager()
    manager.register(Proxy("1", None))
    strategy.configure_fit(1, ndarrays_to_parameters([np.zeros(2)]), manager)
    assert strategy.aggregate_fit(1, [], [ValueError("no disk")]) == (None, {})
    assert "Round 1 counted nobody, although nodes were asked: 1 × no disk." in caplog.text


def test_secagg_with_another_weight_than_one_is_refused():
    class Workflow(SecAggPlusWorkflow):
        def run(self, strategy):
            strategy.configure_fit(1, ndarrays_to_parameters([np.zeros(2)]), SimpleClientManager())

    sentence = "^max_weight of SecAggPlusWorkflow is 1000.0, but must be 1: every contribution"
    with pytest.raises(ValueError, match=sentence):
        Workflow(3, 2).run(legacy.FedAU(**options()))


def test_checkpoints(proxies):
    first = legacy.FedAU(**options())
    play(first, proxies, 3)
    second = legacy.FedAU(**options())
    second.load_state_dict(first.state_dict())
    assert second.ledger.counted == first.ledger.counted
    assert second.ledger.round == 3


@pytest.mark.parametrize("bad", [{"num_clients": 0}, {"divisor": "n"}])
def test_bad_options(bad):
    with pytest.raises(ValueError, match="but must be"):
        legacy.FedAU(**{**options(), **bad})


@pytest.mark.engine
def test_runs_on_the_ray_engine():
    """Three virtual clients, five rounds of Flower's older loop; the model equals the formula."""
    with tempfile.TemporaryDirectory(prefix="ray-") as directory:  # short: it holds sockets
        result = subprocess.run(
            [sys.executable, "-m", "tests.fedau_flwr.legacy_on_ray", directory],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert result.returncode == 0, result.stderr
    ended = json.loads(result.stdout.splitlines()[-1])
    x = 2.0
    for _ in range(5):
        x = x + np.mean(0.1 * (TARGETS - x))
    np.testing.assert_allclose(ended["model"], [x, x], rtol=0, atol=1e-9)
    assert ended["counted"] == [5, 5, 5]
