"""Evaluation on the nodes, each with a share of the samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, RecordDict
from flwr.serverapp import Grid
from numpy.typing import NDArray

from simulations.nodes.evaluator import Evaluation, SampleResults
from simulations.runs.failures import check_replies
from simulations.tasks import Task


@dataclass(frozen=True, eq=False)
class Measurement:
    """Loss and accuracy on the whole training and test set, as far as somebody has them.

    ``samples`` has the training samples one by one, if they were asked for.
    """

    task: Task
    train: Evaluation | None
    test: Evaluation | None
    samples: SampleResults | None = None

    def metrics(self) -> dict[str, Any]:
        """Return what a report says about the model."""
        values: dict[str, Any] = {}
        for part, result in (("train", self.train), ("test", self.test)):
            values[f"{part}_loss"] = None if result is None else result.loss
            values[f"{part}_{self.task.metric}"] = None if result is None else result.accuracy
            if self.task.classes:
                values[f"{part}_class_accuracy"] = [] if result is None else result.class_accuracy
        return values

    def words(self) -> str:
        """Return it for a log line."""
        parts = [("train", self.train), ("test", self.test)]
        return ", ".join(
            f"{part} {100 * result.accuracy:.1f} % (loss {result.loss:.3f})"
            for part, result in parts
            if result is not None
        )


def measure(
    grid: Grid,
    task: Task,
    arrays: ArrayRecord,
    *,
    timeout: float,
    samples: bool = False,
    shards: int | None = None,
) -> Measurement:
    """Evaluate a model on the nodes of `grid`, in parallel and on all samples of both sets.

    Parameters
    ----------
    samples : bool
        Also return the results of all training samples.
    shards : int | None
        The number of nodes that do it, if not all.
    """
    nodes = list(grid.get_node_ids())[:shards]
    train, test = (_cuts(task.count(part), len(nodes)) for part in ("train", "test"))
    messages = [
        Message(
            RecordDict(
                {
                    "arrays": arrays,
                    "config": ConfigRecord(
                        {
                            "train": [train[shard], train[shard + 1]],
                            "test": [test[shard], test[shard + 1]],
                            "samples": samples,
                        }
                    ),
                }
            ),
            node,
            MessageType.EVALUATE,
            ttl=timeout,
        )
        for shard, node in enumerate(nodes)
    ]
    replies = list(grid.send_and_receive(messages, timeout=timeout))
    check_replies(replies, expected=len(nodes))
    by_node = {reply.metadata.src_node_id: reply.content for reply in replies}
    contents = [by_node[node] for node in nodes]
    return Measurement(
        task,
        train=_total(contents, "train"),
        test=_total(contents, "test"),
        samples=_samples(contents) if samples else None,
    )


def _cuts(count: int, shards: int) -> list[int]:
    return [count * shard // shards for shard in range(shards + 1)]


def _total(contents: list[RecordDict], part: str) -> Evaluation:
    records: list[Any] = [content.config_records[part] for content in contents]
    parts = [
        Evaluation(float(record["loss"]), np.array(record["scores"]), np.array(record["counts"]))
        for record in records
    ]
    return sum(parts[1:], parts[0])


def _samples(contents: list[RecordDict]) -> SampleResults:
    def joined(key: str) -> NDArray[Any]:
        records = [content.array_records["samples"] for content in contents]
        return np.concatenate([record[key].numpy() for record in records])

    losses = joined("0")
    return SampleResults(np.empty(0, np.int64), losses, joined("1"))
