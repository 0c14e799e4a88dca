"""Small federations in one process: real strategies, real ClientApps, a grid between them."""

from collections.abc import Callable

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from fedau_flwr import FedAUMod
from fedau_flwr.testing.in_process_grid import InProcessGrid

Arrays = dict[str, np.ndarray]


class Federation(InProcessGrid):
    """Shows the nodes of the clients in `present`, and loses the replies of those in `lost`."""

    def __init__(self, app: ClientApp, clients: int, run_config=None, node_config=None):
        super().__init__(app, clients, run_config, node_config)
        self.present = set(range(clients))
        self.lost: set[int] = set()
        self.replies: list[Message] = []

    def number(self, node_id: int) -> int:
        return self.contexts[node_id].node_config["partition-id"]

    def get_node_ids(self):
        return [node for node in self.contexts if self.number(node) in self.present]

    def send_and_receive(self, messages, *, timeout=None):
        replies = super().send_and_receive(messages, timeout=timeout)
        self.replies = [r for r in replies if self.number(r.metadata.src_node_id) not in self.lost]
        return list(self.replies)

    def play(self, strategy, server_round: int, model: ArrayRecord) -> ArrayRecord:
        """Run one round, as Flower's own loop does."""
        messages = strategy.configure_train(server_round, model, ConfigRecord(), self)
        replies = self.send_and_receive(messages, timeout=60)
        arrays, self.metrics = strategy.aggregate_train(server_round, replies)
        return arrays


def training_app(train: Callable[[int, Arrays, int], Arrays], mods=None) -> ClientApp:
    """Return a Message-API app that trains with `train(client, arrays, server_round)`."""
    app = ClientApp(mods=[FedAUMod()] if mods is None else mods)

    @app.train()
    def run(message: Message, context: Context) -> Message:
        arrays = {name: array.numpy() for name, array in message.content["arrays"].items()}
        config = message.content["config"]
        trained = train(context.node_config["partition-id"], arrays, config["server-round"])
        metrics = MetricRecord({"num-examples": 17, "train_loss": 0.25})
        content = RecordDict({"arrays": record(**trained), "metrics": metrics})
        return Message(content, reply_to=message)

    return app


def towards(targets, rate: float = 0.1) -> Callable[[int, Arrays, int], Arrays]:
    """Return training functions for `½‖x − targets[client]‖²`, one gradient step each."""

    def train(client, arrays, server_round):
        del server_round
        x = arrays["x"]
        return {**arrays, "x": x - np.asarray(rate * (x - targets[client]), x.dtype)}

    return train


def record(**arrays) -> ArrayRecord:
    return ArrayRecord({name: Array(np.asarray(value)) for name, value in arrays.items()})


def values(model: ArrayRecord) -> Arrays:
    return {name: array.numpy() for name, array in model.items()}
