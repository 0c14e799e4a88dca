"""The two ways in which Flower's apps lay out a message: by records, and as a `NumPyClient` does.

A `NumPyClient` has a list of arrays in place of named ones, and a fixed set of records around it.
"""

from collections.abc import Iterable
from typing import Any, TypeVar

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict

from ..arrays import Arrays
from .parts import PARTS_RECORD, Layout, Parts, beside
from .records import encode

_NUMPY_REQUESTS = {
    MessageType.TRAIN: ("fitins.parameters", "fitins.config"),
    MessageType.EVALUATE: ("evaluateins.parameters", "evaluateins.config"),
}
NUMPY_PARAMETERS = "fitres.parameters"
NUMPY_METRICS = "fitres.metrics"

T = TypeVar("T")


def numbered(values: Iterable[T]) -> dict[str, T]:
    """Return a `NumPyClient`'s arrays by names, which are their positions."""
    return {str(number): value for number, value in enumerate(values)}


def in_numpy_records(message: Message) -> Message:
    """Return a message with one array and one config record as a `NumPyClient` reads it."""
    head = message.metadata
    arrays_key, config_key = _NUMPY_REQUESTS[head.message_type]
    (arrays,) = message.content.array_records.values()
    (config,) = message.content.config_records.values()
    content = RecordDict({arrays_key: ArrayRecord(numbered(arrays.values())), config_key: config})
    return Message(content, head.dst_node_id, head.message_type, ttl=head.ttl)


def with_metrics(reply: Message, weight_key: str) -> Message:
    """Return an answer to an evaluate message with its metrics in one record.

    A `NumPyClient`'s loss, example count and metrics are in a record each.
    """
    if reply.has_error() or "evaluateres.loss" not in reply.content:
        return reply
    records = reply.content
    metrics = MetricRecord({"loss": records.metric_records["evaluateres.loss"]["loss"]})
    for name, value in records.config_records.get("evaluateres.metrics", ConfigRecord()).items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            metrics[name] = value
    metrics[weight_key] = records.metric_records["evaluateres.num_examples"]["num_examples"]
    reply.content = RecordDict({"metrics": metrics})
    return reply


def reply_arrays(parts: Parts, model: Arrays) -> tuple[Arrays, Arrays]:
    """Return the first part by the model's names, zeros where nothing is averaged, and the rest."""
    first = next(iter(parts.values()))
    main = {n: first[n] if n in first else np.zeros_like(value) for n, value in model.items()}
    return main, beside(parts)


def reply_content(name: str, model: Arrays, parts: Parts, reported: dict[str, Any]) -> RecordDict:
    """Return a reply with a contribution, in an array record called `name` as the app's own was.

    Nothing else is in it but the reported metrics.
    """
    main, extra = reply_arrays(parts, model)
    if name == NUMPY_PARAMETERS:
        content = RecordDict({name: encode(numbered([*main.values(), *extra.values()]))})
        content[NUMPY_METRICS] = ConfigRecord(reported)
        content["fitres.num_examples"] = MetricRecord({"num_examples": 1})
        content["fitres.status"] = ConfigRecord({"code": 0, "message": "Success"})
        return content
    content = RecordDict({name: encode(main)})
    if extra:
        content[PARTS_RECORD] = encode(extra)
    if reported:
        content["metrics"] = MetricRecord(reported)
    return content


def contribution_records(content: RecordDict, layout: Layout) -> tuple[ArrayRecord, ArrayRecord]:
    """Return the record of the first part, and the one of all others by their own names."""
    records = dict(content.array_records)
    extra = records.pop(PARTS_RECORD, ArrayRecord())
    if len(records) != 1:
        raise ValueError(f"{len(records)} ArrayRecords instead of one")
    ((name, record),) = records.items()
    if name == NUMPY_PARAMETERS:
        names = layout.names_beside()
        arrays = list(record.items())
        first = len(arrays) - len(names)
        extra = ArrayRecord({n: a for n, (_, a) in zip(names, arrays[first:], strict=False)})
        record = ArrayRecord(dict(arrays[:first]))
    return record, extra
