"""Adding up contributions, the one thing a server has to do.

A summation opens a round (it may talk to the nodes before they train) and closes it with the
sum over the replies that it accepts. `PlainSum` is the default; a secure one takes its place
without any strategy noticing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from numpy.typing import NDArray

from ..client.contribution import is_averaged, wire_dtype
from ..client.store import Arrays
from ..privacy.gaussian import GaussianPrivacy
from ..wire.records import decode
from ..wire.requests import GROUP, HOSTED, LABEL_RECORD


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """What a summation knows about the round that it adds up.

    Parameters
    ----------
    number : int
        Flower's round, starting at 1.
    model : Arrays
        The model that is trained on, by the names under which updates travel.
    order : Callable[[int], int]
        Maps a node id to the number by which contributions are ordered, so that sums repeat
        bit for bit although replies arrive in any order and node ids are random.
    grid : Grid
        Reaches the nodes.
    timeout : float
        The round's deadline in seconds.
    asked : Mapping[int, list[int]]
        The clients that each node was asked for.
    example_key : str
        The metric in which a client without `FedAUMod` says how many examples it has.
    """

    number: int
    model: Arrays
    order: Callable[[int], int]
    grid: Grid
    timeout: float
    asked: Mapping[int, list[int]] = field(default_factory=dict)
    example_key: str = "num-examples"


@dataclass(slots=True, eq=False)
class Sum:
    """The sum over a round's accepted replies.

    Parameters
    ----------
    total : Arrays | None
        The sum of the contributions, or None if there is none.
    nodes : list[int]
        The nodes whose contributions are in it.
    rejected : dict[int, str]
        The nodes whose replies are not, and why.
    hosted : dict[int, list[int]]
        The clients that are in the contribution of each host.
    groups : list[str]
        The group of every accepted reply that named one.
    metrics : list[RecordDict]
        The metrics that clients chose to report.
    """

    total: Arrays | None = None
    nodes: list[int] = field(default_factory=list)
    rejected: dict[int, str] = field(default_factory=dict)
    hosted: dict[int, list[int]] = field(default_factory=dict)
    groups: list[str] = field(default_factory=list)
    metrics: list[RecordDict] = field(default_factory=list)


class Summation(ABC):
    """How contributions become a sum."""

    secure = False
    """Whether replies hold nothing but masked values: no label, and the noise in their share."""

    def open(self, this: Round, messages: list[Message]) -> list[Message]:
        """Prepare a round; returns the train messages that are to be sent."""
        del this
        return messages

    def check_privacy(self, privacy: GaussianPrivacy) -> None:
        """Refuse noise that this summation cannot carry."""
        del privacy

    @abstractmethod
    def close(self, this: Round, replies: list[Message]) -> Sum:
        """Add up; consumes `replies`."""


class Rejection(Exception):
    """Why a reply does not enter the sum."""


class PlainSum(Summation):
    """Adds up what arrives, in a fixed order, and frees each reply as it goes."""

    def close(self, this: Round, replies: list[Message]) -> Sum:
        """Add up the replies that hold a whole and finite contribution."""
        result = Sum()
        seen: set[int] = set()
        replies.sort(key=lambda reply: _place(this, reply), reverse=True)
        while replies:
            reply = replies.pop()
            node = reply.metadata.src_node_id
            try:
                if node in seen:
                    raise Rejection("a second reply in the same round")
                contribution = _contribution(this, reply)
                hosted = _hosted(this, reply)
            except Rejection as rejection:
                result.rejected[node] = str(rejection)
                continue
            seen.add(node)
            result.nodes.append(node)
            if hosted is not None:
                result.hosted[node] = hosted
            if result.total is None:
                # A decoded array can be a view of the message's own bytes.
                result.total = {name: np.array(value) for name, value in contribution.items()}
            else:
                with np.errstate(over="ignore"):  # the strategy says what becomes of it
                    for name, value in contribution.items():
                        result.total[name] += value
            _take_extras(reply.content, result)
        return result


def _place(this: Round, reply: Message) -> tuple[int, float, str]:
    meta = reply.metadata
    return this.order(meta.src_node_id), meta.created_at, meta.message_id


def _contribution(this: Round, reply: Message) -> Arrays:
    """Return a reply's averaged arrays, or raise `Rejection` with what is wrong with it."""
    if reply.has_error():
        reason = reply.error.reason or "an error without a reason"
        if "KeyError" in reason and "fitins.parameters" in reason:
            reason += ", since it is a NumPyClient; the strategy needs numpy_clients=True"
        raise Rejection(reason)
    content = reply.content
    if len(content.array_records) != 1:
        raise Rejection(f"{len(content.array_records)} ArrayRecords instead of one")
    _check_weighted(this, content)
    known = {"fitres.metrics", "fitres.status", LABEL_RECORD}
    if unknown := sorted(set(content.config_records) - known):
        raise Rejection(f"unknown records {unknown}")
    record = next(iter(content.array_records.values()))
    if record.keys() != this.model.keys():
        odd = sorted(record.keys() ^ this.model.keys())
        raise Rejection(f"array names that differ from the model's in {odd}")
    contribution = {}
    for name, value in this.model.items():
        array = _checked(record, name, value)
        if is_averaged(value.dtype):
            contribution[name] = array
    return contribution


def _check_weighted(this: Round, content: RecordDict) -> None:
    """Reject a whole model, which looks like a contribution but for the example count with it."""
    for name, record in content.metric_records.items():
        key = "num_examples" if name == "fitres.num_examples" else this.example_key
        if key in record and (name, record[key]) != ("fitres.num_examples", 1):
            raise Rejection(unweighted(key, record[key]))


def unweighted(key: str, count: object) -> str:
    """Return why a reply with an example count does not enter a sum."""
    return f"an unweighted model with {key}={count}; its client needs FedAUMod or FedAUMixin"


def _hosted(this: Round, reply: Message) -> list[int] | None:
    """Return the clients that a host says are in its contribution, None for a single client."""
    label: Mapping[str, Any] = reply.content.config_records.get(LABEL_RECORD, ConfigRecord())
    clients = label.get(HOSTED)
    if clients is None:
        return None
    asked = this.asked.get(reply.metadata.src_node_id, [])
    if not isinstance(clients, list) or len({*clients} & {*asked}) != len(clients):
        raise Rejection(f"{HOSTED}={clients!r} instead of clients among those asked, each once")
    return clients


def _checked(record: ArrayRecord, name: str, model: NDArray[Any]) -> NDArray[Any]:
    array: Array = record[name]
    # A NumPyClient's arrays are announced without a shape; all others before any decoding.
    if array.shape not in {model.shape, ()}:
        raise Rejection(f"array {name!r} of shape {array.shape} instead of {model.shape}")
    try:
        value = decode(array)
    except Exception as error:  # whatever a client put into its bytes is the client's fault
        raise Rejection(f"array {name!r} that cannot be decoded ({error})") from None
    if value.shape != model.shape:
        raise Rejection(f"array {name!r} of shape {value.shape} instead of {model.shape}")
    if value.dtype != wire_dtype(model.dtype):
        raise Rejection(
            f"array {name!r} of type {value.dtype} instead of {wire_dtype(model.dtype)}"
        )
    if is_averaged(model.dtype) and not np.isfinite(value).all():
        raise Rejection(f"array {name!r} with values that are not finite")
    return value


def _take_extras(content: RecordDict, result: Sum) -> None:
    """Keep a reply's group and reported metrics, wherever its client could put them."""
    labels: dict[str, Any] = {**content.config_records.get("fitres.metrics", {})}
    labels |= content.config_records.get(LABEL_RECORD, {})
    if GROUP in labels:
        result.groups.append(str(labels.pop(GROUP)))
    labels.pop(HOSTED, None)
    metrics = MetricRecord()
    for record in content.metric_records.values():
        metrics.update(record)
    metrics.pop("num_examples", None)
    for name, value in labels.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            metrics[name] = value
    if metrics:
        result.metrics.append(RecordDict({"metrics": metrics}))
