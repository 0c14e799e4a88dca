"""Small federations in one process: real strategies, real ClientApps, a grid between them."""

from collections.abc import Callable

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from fedau_flwr import FedAUMod
from fedau_flwr.client.delivery import is_delivery
from fedau_flwr.server.forwarding import ForwardingGrid
from fedau_flwr.testing.in_process_grid import InProcessGrid

Arrays = dict[str, np.ndarray]


class Federation(InProcessGrid):
    """Shows the nodes of the clients in `present`, and loses the replies of those in `lost`.

    Messages after a round do not reach those in `unreached`.
    """

    def __init__(self, app: ClientApp, clients: int, run_config=None, node_config=None):
        super().__init__(app, clients, run_config, node_config)
        self.present = set(range(clients))
        self.lost: set[int] = set()
        self.unreached: set[int] = set()
        self.replies: list[Message] = []

    def number(self, node_id: int) -> int:
        return self.contexts[node_id].node_config["partition-id"]

    def get_node_ids(self):
        return [node for node in self.contexts if self.number(node) in self.present]

    def everyone(self):
        return Everyone(self)

    def send_and_receive(self, messages, *, timeout=None):
        reached = [m for m in messages if not (is_delivery(m) and self._is_unreached(m))]
        replies = super().send_and_receive(reached, timeout=timeout)
        self.replies = [r for r in replies if self.number(r.metadata.src_node_id) not in self.lost]
        return list(self.replies)

    def _is_unreached(self, message) -> bool:
        return self.number(message.metadata.dst_node_id) in self.unreached

    def play(self, strategy, server_round: int, model: ArrayRecord) -> ArrayRecord:
        """Run one round, as Flower's own loop does."""
        messages = strategy.configure_train(server_round, model, ConfigRecord(), self)
        replies = self.send_and_receive(messages, timeout=60)
        arrays, self.metrics = strategy.aggregate_train(server_round, replies)
        return arrays


class Everyone(ForwardingGrid):
    """The same grid with all nodes."""

    def get_node_ids(self):
        return list(self._grid.contexts)


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
