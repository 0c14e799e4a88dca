"""Reading what nodes reply: whatever they send, the worst outcome is that they are left out."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from flwr.app import ConfigRecord, Message

from ..server.summation import Round, Sum
from ..wire.records import decode_exactly
from .digests import RECORD, VECTOR
from .message import Message as Fields
from .payload import Payload

Answer = TypeVar("Answer")


def read_all(
    replies: Iterable[Message], result: Sum, read: Callable[[Message], Answer]
) -> dict[int, Answer]:
    """Return the first answer of every node; add to `result` whose cannot be read, and why."""
    answers: dict[int, Answer] = {}
    for reply in replies:
        node = reply.metadata.src_node_id
        if node in answers:
            continue
        if reply.has_error():
            result.rejected[node] = reply.error.reason or "an error without a reason"
            continue
        try:
            answers[node] = read(reply)
        except Exception:  # whatever a client put into its bytes is the client's fault
            wrong = "not an answer of a secure sum; its client needs SecureSumMod"
            result.rejected[node] = wrong
    return answers


def fields_of(reply: Message) -> Fields:
    """Return the protocol's fields of a reply."""
    fields: Any = reply.content.config_records[RECORD]
    return {**fields}


def masked_vector(reply: Message, this: Round, payload: Payload) -> tuple[Fields, Any, list[int]]:
    """Return the fields, the masked vector, and the clients that are in it."""
    fields: dict[str, Any] = {**fields_of(reply)}
    asked, hosted = this.asked[reply.metadata.src_node_id], fields.pop("hosted")
    if not isinstance(hosted, list) or len({*hosted} & {*asked}) != len(hosted):
        raise ValueError("'hosted' does not name clients among those asked, each once")
    array = reply.content.array_records[VECTOR]["masked"]
    vector = decode_exactly(array, (payload.size,), payload.fixed_point.dtype)
    return fields, vector, [client for client in asked if client in hosted] if hosted else asked


def config_of(message: Message) -> ConfigRecord:
    """Return the config of a train message, which is the one record of this kind."""
    return next(iter(message.content.config_records.values()))
