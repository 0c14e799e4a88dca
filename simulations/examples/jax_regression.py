"""JAX: a linear regression, whose parameters travel by the names of their paths."""

import jax
import jax.numpy as jnp
import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from fedau_flwr import FedAU, FedAUMod

client = ClientApp(mods=[FedAUMod()])
server = ServerApp()

Parameters = dict[str, jax.Array]
TRUTH = np.array([1.0, -2.0, 0.5], np.float32)


def samples(partition: int) -> tuple[jax.Array, jax.Array]:
    """Return this client's inputs and outputs."""
    rng = np.random.default_rng(partition)
    inputs = rng.normal(size=(40, 3)).astype(np.float32)
    return jnp.asarray(inputs), jnp.asarray(inputs @ TRUTH + 3)


def loss(parameters: Parameters, inputs: jax.Array, outputs: jax.Array) -> jax.Array:
    """Return the mean squared error."""
    return jnp.mean((inputs @ parameters["w"] + parameters["b"] - outputs) ** 2)


def loaded(message: Message) -> Parameters:
    """Return the model that a message brings."""
    arrays = message.content.array_records["arrays"]
    return {name: jnp.asarray(array.numpy()) for name, array in arrays.items()}


def record(parameters: Parameters) -> ArrayRecord:
    """Return parameters as a record of named arrays."""
    return ArrayRecord({name: Array(np.asarray(value)) for name, value in parameters.items()})


@client.train()
def train(message: Message, context: Context) -> Message:
    """Train the model on local data."""
    parameters = loaded(message)
    data = samples(int(context.node_config["partition-id"]))
    for _ in range(5):
        gradient = jax.grad(loss)(parameters, *data)
        parameters = jax.tree.map(lambda p, g: p - 0.1 * g, parameters, gradient)
    metrics = MetricRecord({"num-examples": 40})
    content = RecordDict({"arrays": record(parameters), "metrics": metrics})
    return Message(content, reply_to=message)


@client.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Evaluate the model on local data."""
    error = loss(loaded(message), *samples(int(context.node_config["partition-id"])))
    metrics = MetricRecord({"loss": float(error), "num-examples": 40})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)


@server.main()
def main(grid: Grid, context: Context) -> None:
    """Train, and keep the result."""
    strategy = FedAU(num_clients=int(context.run_config["clients"]), fraction_evaluate=1.0)
    arrays = record({"w": jnp.zeros(3), "b": jnp.zeros(())})
    result = strategy.start(grid, arrays, num_rounds=int(context.run_config["num-server-rounds"]))
    last = max(result.evaluate_metrics_clientapp)
    context.state["metrics"] = result.evaluate_metrics_clientapp[last]
    context.state["arrays"] = result.arrays
