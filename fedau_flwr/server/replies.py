"""Reading a reply: whatever a client sends, the worst outcome is that its round is not counted."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from flwr.app import Array, ConfigRecord, Message, MetricRecord, RecordDict
from numpy.typing import NDArray

from .._log import log
from ..arrays import is_averaged, is_finite, wire_dtype
from ..client.separation import RESTING
from ..wire.dialects import NUMPY_METRICS, contribution_records
from ..wire.parts import Layout, Parts, flat_name
from ..wire.records import decode
from ..wire.requests import GROUP, HOSTED, LABEL_RECORD


class Rejection(Exception):
    """Why a reply does not enter the sum."""


def expected(replies: Iterable[Message], asked: Mapping[int, list[int]]) -> list[Message]:
    """Drop, in place, replies of nodes that were not asked in this round or rest in it."""
    replies = replies if isinstance(replies, list) else list(replies)
    expected = []
    for reply in replies:
        if reply.has_error() and RESTING in (reply.error.reason or ""):
            continue
        if reply.metadata.src_node_id in asked:
            expected.append(reply)
        elif reply.has_error():  # the SuperLink's own, for a node that does not answer any more
            log.debug("A reply is missing: %s", reply.error.reason)
        else:
            node = reply.metadata.src_node_id
            log.warning("Rejected a reply of node %d: it was not asked in this round.", node)
    replies[:] = expected
    return replies


def read_contribution(reply: Message, layout: Layout, example_key: str) -> Parts:
    """Return a reply's parts, or raise `Rejection` with what is wrong with it."""
    if reply.has_error():
        raise Rejection(reply.error.reason or "an error without a reason")
    content = reply.content
    _check_weighted(content, example_key)
    known = {NUMPY_METRICS, "fitres.status", LABEL_RECORD}
    if unknown := sorted(set(content.config_records) - known):
        raise Rejection(f"unknown records {unknown}")
    try:
        record, extra = contribution_records(content, layout)
    except ValueError as error:
        raise Rejection(str(error)) from None
    if record.keys() != layout.model.keys():
        odd = sorted(record.keys() ^ layout.model.keys())
        raise Rejection(f"array names that differ from the model's in {odd}")
    for name, value in layout.model.items():
        if not is_averaged(value.dtype):
            _checked(record[name], name, value.shape, value.dtype)
    if odd := sorted(extra.keys() ^ {*layout.names_beside()}):
        raise Rejection(f"parts that differ from the method's in {odd}")
    parts: Parts = {part: {} for part in (*layout.parts, *layout.scalars)}
    for part, name, shape, dtype in layout.arrays():
        first = part == layout.parts[0]
        key = name if first else flat_name(part, name)
        parts[part][name] = _checked((record if first else extra)[key], key, shape, dtype)
    return parts


def _check_weighted(content: RecordDict, example_key: str) -> None:
    """Reject a whole model, which looks like a contribution but for the example count with it."""
    for name, record in content.metric_records.items():
        key = "num_examples" if name == "fitres.num_examples" else example_key
        if key in record and (name, record[key]) != ("fitres.num_examples", 1):
            raise Rejection(unweighted(key, record[key]))


def unweighted(key: str, count: object) -> str:
    """Return why a reply with an example count does not enter a sum."""
    return f"an unweighted model with {key}={count}; its client needs FedAUMod or FedAUMixin"


def read_hosted(reply: Message, asked: list[int]) -> list[int]:
    """Return which of the clients that a node was asked for are in its contribution."""
    label: Mapping[str, Any] = reply.content.config_records.get(LABEL_RECORD, ConfigRecord())
    clients = label.get(HOSTED)
    if clients is None:
        return asked
    if not isinstance(clients, list) or len({*clients} & {*asked}) != len(clients):
        raise Rejection(f"{HOSTED}={clients!r} instead of clients among those asked, each once")
    return clients


def _checked(array: Array, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    # A NumPyClient's arrays are announced without a shape; all others before any decoding.
    if array.shape not in {shape, ()}:
        raise Rejection(f"array {name!r} of shape {array.shape} instead of {shape}")
    try:
        value = decode(array)
    except Exception as error:  # whatever a client put into its bytes is the client's fault
        raise Rejection(f"array {name!r} that cannot be decoded ({error})") from None
    if value.shape != shape:
        raise Rejection(f"array {name!r} of shape {value.shape} instead of {shape}")
    if value.dtype != wire_dtype(dtype):
        raise Rejection(f"array {name!r} of type {value.dtype} instead of {wire_dtype(dtype)}")
    if is_averaged(dtype) and not is_finite(value):
        raise Rejection(f"array {name!r} with values that are not finite")
    return value


def read_extras(content: RecordDict) -> tuple[str | None, MetricRecord]:
    """Return a reply's group and reported metrics, wherever its client could put them."""
    labels: dict[str, Any] = {**content.config_records.get(NUMPY_METRICS, {})}
    labels |= content.config_records.get(LABEL_RECORD, {})
    group = labels.pop(GROUP, None)
    labels.pop(HOSTED, None)
    metrics = MetricRecord()
    for record in content.metric_records.values():
        metrics.update(record)
    metrics.pop("num_examples", None)
    for name, value in labels.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            metrics[name] = value
    return None if group is None else str(group), metrics
