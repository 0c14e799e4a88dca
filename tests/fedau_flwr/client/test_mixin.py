import numpy as np
import pytest
from flwr.app import Context, Message, MetricRecord, RecordDict
from flwr.client import NumPyClient
from flwr.clientapp import ClientApp

from fedau_flwr import FedAU, FedAUMixin, FedAUMod, FedAUWeighting
from tests.fedau_flwr.federation import Federation, record, values

TARGETS = np.array([4.0, 0.0, 1.0])


class Plain(NumPyClient):
    def __init__(self, target):
        self.target = target

    def fit(self, parameters, config):
        parameters[0] -= np.asarray(0.1 * (parameters[0] - self.target), parameters[0].dtype)
        parameters[1] += 1
        return parameters, 23, {"train_loss": 0.5, "secret": 1.0}


class OwnFit(FedAUMixin, NumPyClient):
    fedau_weighting = FedAUWeighting(None)
    __init__ = Plain.__init__

    def fit(self, parameters, config):
        return Plain.fit(self, parameters, config)


class InheritedFit(FedAUMixin, Plain):
    fedau_weighting = FedAUWeighting(None)


class CooperativeFit(OwnFit):
    def fit(self, parameters, config):
        parameters, count, metrics = super().fit(parameters, config)
        return parameters, count + 1, metrics


class Modded(Plain):
    with_context = None


def numpy_app(kind):
    def client_fn(context: Context):
        client = kind(TARGETS[context.node_config["partition-id"]])
        return (client.with_context(context) if client.with_context else client).to_client()

    mods = [FedAUMod(FedAUWeighting(None))] if kind is Modded else []
    return ClientApp(client_fn, mods=mods)


def expected_loop(rounds):
    """x += Σ ω Δ / N with Algorithm 2 for K → ∞, where client n comes every n+1-th round."""
    x = np.full(2, 2.0, np.float32)
    seen, last = np.zeros(3), np.zeros(3)
    for r in range(1, rounds + 1):
        here = [n for n in range(3) if r % (n + 1) == 0]
        weight = np.where(seen > 0, last / np.maximum(seen, 1), 1.0)
        x = x + sum(weight[n] * -0.1 * (x - TARGETS[n]) for n in here) / 3
        for n in here:
            seen[n] += 1
            last[n] = r
    return x


@pytest.mark.parametrize("kind", [OwnFit, InheritedFit, CooperativeFit, Modded])
def test_numpy_clients_run_under_the_current_api(kind):
    grid = Federation(numpy_app(kind), 3)
    strategy = FedAU(num_clients=3, numpy_clients=True)
    model = record(weight=np.full(2, 2.0, np.float32), counter=np.array(7))
    for r in range(1, 21):
        grid.present = {n for n in range(3) if r % (n + 1) == 0}
        model = grid.play(strategy, r, model)
        assert len(strategy.ledger.counted) == min(r, 3)
        for reply in grid.replies:
            content = reply.content
            assert sorted(content) == [
                "fitres.metrics",
                "fitres.num_examples",
                "fitres.parameters",
                "fitres.status",
            ]
            assert dict(content["fitres.num_examples"]) == {"num_examples": 1}
            assert dict(content["fitres.metrics"]) == {}
            assert dict(content["fitres.status"]) == {"code": 0, "message": "Success"}
    np.testing.assert_allclose(values(model)["weight"], expected_loop(20), rtol=1e-5)
    assert values(model)["counter"] == 7


class MessageClient:
    def __init__(self, target=4.0):
        self.target = target

    def train(self, message: Message, context: Context) -> Message:
        x = message.content["arrays"]["x"].numpy()
        content = RecordDict(
            {
                "arrays": record(x=x - 0.1 * (x - self.target)),
                "metrics": MetricRecord({"num-examples": 3, "train_loss": 0.5}),
            }
        )
        return Message(content, reply_to=message)


class InheritedTrain(FedAUMixin, MessageClient):
    fedau_report = ("train_loss",)
    fedau_importance = 2.0


class OwnTrain(FedAUMixin):
    fedau_report = ("train_loss",)
    fedau_importance = 2.0

    def train(self, message, context):
        return MessageClient().train(message, context)


@pytest.mark.parametrize("kind", [InheritedTrain, OwnTrain])
def test_message_api_classes(kind):
    app = ClientApp()
    app.train()(kind().train)
    grid = Federation(app, 1)
    model = grid.play(FedAU(num_clients=1), 1, record(x=np.zeros(1)))
    assert values(model)["x"] == pytest.approx(0.8)
    (reply,) = grid.replies
    assert sorted(reply.content) == ["arrays", "metrics"]
    assert dict(reply.content["metrics"]) == {"train_loss": 0.5}
    assert dict(grid.metrics) == {"train_loss": 0.5}


def test_reported_metrics_of_a_numpy_client():
    class Reporting(InheritedFit):
        fedau_report = ("train_loss",)

    grid = Federation(numpy_app(Reporting), 1)
    grid.play(FedAU(1, numpy_clients=True), 1, record(w=np.zeros(2), c=np.array(0)))
    assert dict(grid.replies[0].content["fitres.metrics"]) == {"train_loss": 0.5}
    assert dict(grid.metrics) == {"train_loss": 0.5}


def test_a_client_without_context_says_what_to_write():
    app = ClientApp(lambda context: OwnFit(1.0).to_client())
    grid = Federation(app, 1)
    grid.play(FedAU(1, numpy_clients=True), 1, record(w=np.zeros(2), c=np.array(0)))
    assert "`OwnFit(...).with_context(context).to_client()`" in grid.replies[0].error.reason


def test_a_failing_fit_leaves_the_client_usable():
    class Failing(FedAUMixin, NumPyClient):
        fails = True

        def fit(self, parameters, config):
            if self.fails:
                raise RuntimeError("out of memory")
            return [parameters[0] + 1], 1, {}

    client = Failing().with_context(Context(1, 7, {}, RecordDict(), {}))
    config = FedAU(1).ledger
    config.open(1)
    fields = config.request(7).to_config()
    with pytest.raises(RuntimeError):
        client.fit([np.zeros(1)], fields)
    client.fails = False
    assert client.fit([np.zeros(1)], fields)[0] == [np.ones(1)]
