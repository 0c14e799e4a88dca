"""The ClientApp: a plain Flower client, made a client of the run's method by the plugin's mod.

A node stands for one client, or hosts those that a message names in ``fedau-clients``. Where the
message names no place for the clients' states, nothing is simulated: `simulations.real`. Under
Flower's built-in FedAvg nothing of the plugin is in between.
"""

from __future__ import annotations

from functools import lru_cache

from flwr.app import (
    ArrayRecord,
    ConfigRecord,
    Context,
    Error,
    Message,
    MessageType,
    MetricRecord,
    RecordDict,
    UserConfigValue,
)
from flwr.clientapp import ClientApp
from flwr.clientapp.typing import ClientAppCallable
from flwr.common.constant import ErrorCode

from fedau_flwr import FedAUMod, SecureSumMod
from fedau_flwr.availability import answer_identity
from fedau_flwr.client.host import Host
from fedau_flwr.wire.records import decode_all, encode
from fedau_flwr.wire.requests import HOSTED
from simulations.config import RunConfig
from simulations.nodes import deployed as real
from simulations.nodes.worker import STATES, Worker, worker_for


@lru_cache(maxsize=1)
def _worker_of(run_config: tuple[tuple[str, UserConfigValue], ...]) -> Worker:
    return worker_for(RunConfig.parse(dict(run_config)))


def _worker(context: Context) -> Worker:
    return _worker_of(tuple(context.run_config.items()))


def participate(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """Apply the mod of the run's method to the train messages of a node that is one client."""
    train = message.metadata.message_type.split(".")[0] == MessageType.TRAIN
    if not train or context.run_config["method"] == "fedavg":
        return call_next(message, context)
    config = message.content["config"]
    if HOSTED in config:
        return call_next(message, context)
    if STATES not in config:
        return real.fedau_mod(context)(message, context, call_next)
    worker = _worker(context)
    client = int(context.node_config["partition-id"])
    mod = FedAUMod(
        worker.experiment.weighting(client), store=lambda _: worker.store(client, config)
    )
    return mod(message, context, call_next)


def mask(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """Let nothing leave this node but its part of a secure sum, if the run has one."""
    if not context.run_config["secure-sum"]:
        return call_next(message, context)
    return SecureSumMod()(message, context, call_next)


app = ClientApp(mods=[mask, participate])
app.query()(answer_identity)


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train this node's client, or the clients that the message names."""
    if STATES not in message.content["config"]:
        return real.train(message, context)
    worker = _worker(context)
    config = message.content["config"]
    if HOSTED in config and context.run_config["method"] != "fedavg":
        host = Host(lambda client: worker.participant(client, config))
        return host.reply(message, lambda client, model: worker.train(client, model, config))
    model = decode_all(message.content["arrays"])
    clients = list(config.get(HOSTED, [int(context.node_config["partition-id"])]))
    if len(clients) == 1:
        trained, examples = worker.train(clients[0], model, config), worker.examples(clients[0])
    else:
        trained, examples = worker.weighted_mean(clients, model, config)
    if examples == 0 and context.run_config["method"] == "fedavg":
        # Flower's FedAvg divides by the sum of the examples, which must not be 0.
        reason = f"clients {clients} hold no samples to train on"
        return Message(Error(ErrorCode.MOD_FAILED_PRECONDITION, reason), reply_to=message)
    content = RecordDict(
        {"arrays": encode(trained), "metrics": MetricRecord({"num-examples": examples})}
    )
    return Message(content, reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Evaluate the model on a range of the training and one of the test samples.

    The reply has sums for each part, and the loss and correctness of each training sample where the
    message asks for ``samples``.
    """
    worker = _worker(context)
    model = decode_all(message.content["arrays"])
    config = message.content["config"]
    content = RecordDict()
    for part in ("train", "test"):
        start, stop = config[part]
        result = worker.evaluate(model, part, start, stop)
        total = result.total(worker.experiment.spec.num_classes)
        content[part] = ConfigRecord(
            {
                "loss": total.loss_sum,
                "correct": total.correct.tolist(),
                "counts": total.counts.tolist(),
            }
        )
        if config["samples"] and part == "train":
            content["samples"] = ArrayRecord([result.losses, result.correct])
    return Message(content, reply_to=message)
