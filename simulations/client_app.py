"""The ClientApp: a plain Flower client, made a client of the run's method by the plugin's mod.

A node stands for one client, or hosts those that a message names in ``fedau-clients``. Where the
message names no place for the clients' states, nothing is simulated: `simulations.nodes.deployed`.
Under a method whose clients do not participate in the plugin's sense, such as Flower's own FedAvg,
nothing of the plugin is in between.
"""

from functools import lru_cache, partial
from typing import Any

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

from fedau_flwr import FedAUMod, SecureSumMod, _flower
from fedau_flwr.availability import answer_identity
from fedau_flwr.client.delivery import is_delivery
from fedau_flwr.client.host import Host
from fedau_flwr.client.mod import CallNext, refuse
from fedau_flwr.client.policy import NodePolicy
from fedau_flwr.wire.dialects import reply_content
from fedau_flwr.wire.records import decode_all, encode
from fedau_flwr.wire.requests import HOSTED, SECURE_RECORD, Refusal
from simulations.config import ConfigError, RunConfig
from simulations.nodes import deployed
from simulations.nodes.worker import STATES, Worker, check_simulated, worker_for
from simulations.registry import ALLOW_IMPORT
from simulations.runs.shared_arrays import shared_arrays


@lru_cache(maxsize=1)
def _config_of(
    run_config: tuple[tuple[str, UserConfigValue], ...], imports: str | None
) -> RunConfig:
    return RunConfig.parse(dict(run_config), imports=imports)


def _config(context: Context) -> RunConfig:
    # A simulation runs what its user asks for; where a node's owner has a say, that counts.
    allowed = context.node_config.get(ALLOW_IMPORT)
    imports = None if allowed is None else str(allowed)
    return _config_of(tuple(context.run_config.items()), imports)


def _worker(context: Context) -> Worker:
    return worker_for(_config(context))


def participate(message: Message, context: Context, call_next: CallNext) -> Message:
    """Apply the mod of the run's method to the train messages of a node that is one client."""
    train = message.metadata.message_type.split(".")[0] == MessageType.TRAIN
    if not train or HOSTED in message.content["config"]:
        return call_next(message, context)
    config: Any = message.content["config"]
    if STATES not in config:
        try:
            mod = deployed.fedau_mod(context)
        except ConfigError as error:
            return refuse(message, Refusal(str(error)))
        return mod(message, context, call_next) if mod else call_next(message, context)
    if not _worker(context).config.algorithm.participates:
        return call_next(message, context)
    return _contribute(message, context, call_next)


def _contribute(message: Message, context: Context, call_next: CallNext) -> Message:
    """Answer a train message as the one client that this node simulates."""
    worker, config = _worker(context), message.content.config_records["config"]
    client = int(context.node_config["partition-id"])
    mod = FedAUMod(
        worker.experiment.weighting(client),
        store=lambda _: worker.store(client, config),
        transforms=worker.config.algorithm.transforms,
    )
    if is_delivery(message) or SECURE_RECORD in message.content:
        return mod(message, context, call_next)
    # What the mod would do, but for a copy of the trained model on its way through messages.
    model = decode_all(message.content.array_records["arrays"])
    try:
        trained = partial(worker.train, client, config=config)
        parts, _ = mod.contribute(config, context, model, trained)
    except Refusal as refusal:
        return refuse(message, refusal)
    return Message(reply_content("arrays", model, parts, {}), reply_to=message)


def mask(message: Message, context: Context, call_next: CallNext) -> Message:
    """Let nothing leave but a part of a secure sum, if the run has one or the node's owner asks."""
    try:
        required = NodePolicy.of(context).require_secure
        check_simulated(message, context.node_config)
    except Refusal as refusal:
        return refuse(message, refusal)
    if not (required or context.run_config["secure-sum"]):
        return call_next(message, context)
    return SecureSumMod()(message, context, call_next)


class App(ClientApp):
    """A ClientApp that a worker looks up by its name.

    Flower's engine pickles the app into every message, all of its functions included.
    """

    def __reduce__(self) -> str:
        """Return the name in this module."""
        return "app"


app = App(mods=[shared_arrays, answer_identity, mask, participate])


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train this node's client, or the clients that the message names."""
    if STATES not in message.content["config"]:
        return deployed.train(message, context)
    worker = _worker(context)
    config: Any = message.content["config"]
    participates = worker.config.algorithm.participates
    if HOSTED in config and participates:
        with worker.participants(config) as participant:
            host = Host(participant)
            return host.reply(message, lambda client, model: worker.train(client, model, config))
    model = decode_all(message.content.array_records["arrays"])
    clients = list(config.get(HOSTED, [int(context.node_config["partition-id"])]))
    if len(clients) == 1:
        trained, examples = worker.train(clients[0], model, config), worker.examples(clients[0])
    else:
        trained, examples = worker.weighted_mean(clients, model, config)
    if examples == 0 and not participates:
        # Flower's FedAvg divides by the sum of the examples, which must not be 0.
        reason = f"clients {clients} hold no samples to train on"
        return Message(Error(_flower.ErrorCode.MOD_FAILED_PRECONDITION, reason), reply_to=message)
    content = RecordDict(
        {"arrays": encode(trained), "metrics": MetricRecord({"num-examples": examples})}
    )
    return Message(content, reply_to=message)


@app.query()
def hello(message: Message, context: Context) -> Message:
    """Say that the node is up, what the run starts from, and what makes the local steps here."""
    # See `Worker`; and the server does without torch altogether.
    from simulations.nodes.resident import initial_parameters, used_kernel  # noqa: PLC0415

    config = _config(context)
    kernel, why = used_kernel(config.task, device=config.device, kernel=config.kernel)
    model = encode(initial_parameters(config.task, seed=config.seed))
    steps = ConfigRecord({"kernel": kernel, "why": why})
    return Message(RecordDict({"arrays": model, "steps": steps}), reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Evaluate the model on a range of the training and one of the test samples.

    The reply has sums for each part, and the loss and score of each training sample where the
    message asks for ``samples``.
    """
    worker = _worker(context)
    model = decode_all(message.content.array_records["arrays"])
    config: Any = message.content["config"]
    content = RecordDict()
    for part in ("train", "test"):
        start, stop = config[part]
        result = worker.evaluate(model, part, start, stop)
        total = result.total(worker.experiment.task.num_groups)
        content[part] = ConfigRecord(
            {
                "loss": total.loss_sum,
                "scores": total.scores.tolist(),
                "counts": total.counts.tolist(),
            }
        )
        if config["samples"] and part == "train":
            content["samples"] = ArrayRecord([result.losses, result.scores])
    return Message(content, reply_to=message)
