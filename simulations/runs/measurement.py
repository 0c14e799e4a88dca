"""Evaluation on the nodes, each with a share of the samples."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, RecordDict
from flwr.serverapp import Grid
from numpy.typing import NDArray

from fedau_flwr import _flower
from fedau_flwr.server.loop import RunFailure
from simulations.nodes.evaluation import Evaluation, client_means, client_test_accuracy
from simulations.tasks import Task
from simulations.tasks.arrays import PARTS
from simulations.tasks.split import Split

TIMEOUT = 24 * 3600.0
"""Seconds after which a simulated node is given up; a slow machine is no failure."""


@dataclass(frozen=True, eq=False)
class Measurement:
    """Loss and accuracy on the whole training and test set, as far as somebody has them.

    ``samples`` has losses and scores of the training samples one by one, if they were asked for.
    """

    task: Task
    parts: Mapping[str, Evaluation]
    samples: Sequence[NDArray[Any]] = ()

    def metrics(self) -> dict[str, Any]:
        """Return what a report says about the model."""
        values: dict[str, Any] = {}
        for part in PARTS:
            result = self.parts.get(part)
            values[f"{part}_loss"] = None if result is None else result.loss
            values[f"{part}_{self.task.metric}"] = None if result is None else result.accuracy
            if self.task.classes:
                values[f"{part}_class_accuracy"] = [] if result is None else result.class_accuracy
        return values

    def by_client(self, split: Split) -> dict[str, NDArray[np.float64]]:
        """Return what goes into clients.npz."""
        losses, scores = self.samples
        return {
            "loss": client_means(split, losses),
            "train_accuracy": client_means(split, scores),
            "test_accuracy": client_test_accuracy(split, self.parts["test"]),
        }

    def __str__(self) -> str:
        return ", ".join(
            f"{part} {100 * result.accuracy:.1f} % (loss {result.loss:.3f})"
            for part, result in self.parts.items()
        )


def measure(
    grid: Grid, task: Task, arrays: ArrayRecord, *, samples: bool, shards: int | None
) -> Measurement:
    """Evaluate a model on the nodes of `grid`, or on `shards` of them, on all samples of both sets.

    With `samples` also return the results of all training samples.
    """
    nodes = list(grid.get_node_ids())[:shards]
    messages = []
    for shard, node in enumerate(nodes):
        cuts = {p: [task.count(p) * end // len(nodes) for end in (shard, shard + 1)] for p in PARTS}
        config = ConfigRecord({**cuts, "samples": samples})
        content = RecordDict({"arrays": arrays, "config": config})
        messages.append(Message(content, node, MessageType.EVALUATE, ttl=TIMEOUT))
    replies = list(grid.send_and_receive(messages, timeout=TIMEOUT))
    check_replies(replies)
    if missing := len(nodes) - len(replies):
        raise RunFailure(f"{missing} of {len(nodes)} nodes did not answer in time.")
    by_node = {reply.metadata.src_node_id: reply.content for reply in replies}
    contents = [by_node[node] for node in nodes]
    parts = {part: _total([content.config_records[part] for content in contents]) for part in PARTS}
    if not samples:
        return Measurement(task, parts)
    found = [content.array_records["samples"] for content in contents]
    joined = [np.concatenate([record[key].numpy() for record in found]) for key in ("0", "1")]
    return Measurement(task, parts, joined)


def _total(records: list[Any]) -> Evaluation:
    parts = [
        Evaluation(float(record["loss"]), np.array(record["scores"]), np.array(record["counts"]))
        for record in records
    ]
    return sum(parts[1:], parts[0])


def check_replies(replies: Sequence[Message]) -> None:
    """Raise `RunFailure` if a node crashed.

    In a simulation a crash is no absence: it would bias the result without anybody noticing. A
    client that refuses to send something is another matter.
    """
    for reply in replies:
        if reply.has_error() and reply.error.code != _flower.ErrorCode.MOD_FAILED_PRECONDITION:
            # Ray puts a whole traceback into the reason; what happened is in its last line.
            reason = (reply.error.reason or "no reason given").strip().splitlines()[-1]
            reason = reason[:500].rstrip(".")
            raise RunFailure(f"Node {reply.metadata.src_node_id} failed: {reason}.")
