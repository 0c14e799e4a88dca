"""scikit-learn: a logistic regression, whose coefficients are averaged."""

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from sklearn.linear_model import SGDClassifier

from fedau_flwr import FedAU, FedAUMod

client = ClientApp(mods=[FedAUMod()])
server = ServerApp()

CLASSES, FEATURES = np.arange(3), 8


def samples(partition: int) -> tuple[np.ndarray, np.ndarray]:
    """Return this client's samples, most of them of one class."""
    rng = np.random.default_rng(partition)
    labels = np.where(rng.random(60) < 0.8, partition % 3, rng.integers(0, 3, 60))
    centres = 3 * np.eye(3, FEATURES)
    return centres[labels] + rng.normal(size=(60, FEATURES)), labels


def loaded(message: Message) -> SGDClassifier:
    """Return the model that a message brings."""
    model = SGDClassifier(loss="log_loss", random_state=0, learning_rate="constant", eta0=0.01)
    model.classes_ = CLASSES
    arrays = message.content.array_records["arrays"].to_numpy_ndarrays()
    model.coef_, model.intercept_ = (np.array(array) for array in arrays)
    return model


@client.train()
def train(message: Message, context: Context) -> Message:
    """Train the model on local data."""
    model = loaded(message)
    model.partial_fit(*samples(int(context.node_config["partition-id"])), classes=CLASSES)
    arrays = ArrayRecord([model.coef_, model.intercept_])
    metrics = MetricRecord({"num-examples": 60})
    return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)


@client.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Evaluate the model on local data."""
    score = loaded(message).score(*samples(int(context.node_config["partition-id"])))
    metrics = MetricRecord({"accuracy": float(score), "num-examples": 60})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)


@server.main()
def main(grid: Grid, context: Context) -> None:
    """Train, and keep the result."""
    strategy = FedAU(num_clients=int(context.run_config["clients"]), fraction_evaluate=1.0)
    arrays = ArrayRecord([np.zeros((3, FEATURES)), np.zeros(3)])
    result = strategy.start(grid, arrays, num_rounds=int(context.run_config["num-server-rounds"]))
    last = max(result.evaluate_metrics_clientapp)
    context.state["metrics"] = result.evaluate_metrics_clientapp[last]
    context.state["arrays"] = result.arrays
