"""A federation in one process: real strategies, real ClientApps, a grid between them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable

import numpy as np
from flwr.app import (
    Array,
    ArrayRecord,
    ConfigRecord,
    Context,
    Error,
    Message,
    MetricRecord,
    RecordDict,
)
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid

from fedau_flwr import FedAUMod


class InProcessGrid(Grid):
    """Delivers messages to ClientApps; `present` and `lost` say who is there and who is heard."""

    def __init__(self, apps: dict[int, ClientApp], **run_config):
        self.apps = apps
        self.contexts = {
            node: Context(1, node, {"partition-id": node}, RecordDict(), dict(run_config))
            for node in apps
        }
        self.present = set(apps)
        self.lost: set[int] = set()
        self.sent: list[Message] = []
        self.replies: list[Message] = []

    def set_run(self, run):
        raise NotImplementedError

    @property
    def run(self):
        raise NotImplementedError

    def create_message(self, content, message_type, dst_node_id, group_id, ttl=None):
        raise NotImplementedError

    def get_node_ids(self) -> Iterable[int]:
        return list(self.present)

    def push_messages(self, messages):
        raise NotImplementedError

    def pull_messages(self, message_ids):
        raise NotImplementedError

    def send_and_receive(self, messages, *, timeout=None):
        self.sent = list(messages)
        self.replies = [
            reply
            for message in self.sent
            if (reply := self.deliver(message)).metadata.src_node_id not in self.lost
        ]
        return list(self.replies)

    def deliver(self, message: Message) -> Message:
        node = message.metadata.dst_node_id
        try:
            return self.apps[node](copy.deepcopy(message), self.contexts[node])
        except Exception as error:
            return Message(Error(code=2, reason=str(error)), reply_to=message)


def run_round(strategy, grid: InProcessGrid, number: int, model: ArrayRecord) -> ArrayRecord:
    replies = grid.send_and_receive(
        strategy.configure_train(number, model, ConfigRecord(), grid), timeout=60
    )
    arrays, _ = strategy.aggregate_train(number, replies)
    return model if arrays is None else arrays


def app_training(train: Callable[[dict[str, np.ndarray], int], dict], mods) -> ClientApp:
    """Return a Message-API app whose training is `train(arrays, server_round)`."""
    app = ClientApp(mods=mods)

    @app.train()
    def run(message: Message, context: Context) -> Message:
        arrays = {k: v.numpy() for k, v in message.content["arrays"].items()}
        trained = train(arrays, message.content["config"]["server-round"])
        content = RecordDict(
            {
                "arrays": ArrayRecord({k: Array(np.asarray(v)) for k, v in trained.items()}),
                "metrics": MetricRecord({"num-examples": 17, "train_loss": 0.25}),
            }
        )
        return Message(content, reply_to=message)

    return app


def towards(target, rate=0.1, steps=1):
    """Return a training function: gradient steps on ½‖x − target‖²."""

    def train(arrays, server_round):
        del server_round
        x = arrays["x"].copy()
        for _ in range(steps):
            x -= np.asarray(rate * (x - target), x.dtype)
        return {**arrays, "x": x}

    return train


def quadratic_federation(targets, rate=0.1, mod=FedAUMod, **run_config) -> InProcessGrid:
    """Return one client per target, node ids 1, 2, …"""
    return InProcessGrid(
        {
            node: app_training(towards(target, rate), [mod()])
            for node, target in enumerate(targets, 1)
        },
        **run_config,
    )


def record(**arrays) -> ArrayRecord:
    return ArrayRecord({k: Array(np.asarray(v)) for k, v in arrays.items()})
