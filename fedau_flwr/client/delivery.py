"""The client's side of a delivery: something that arrives after a round in which it was counted.

A delivery is a train message with a mark, since Flower lets no other kind pass without a function
that the app registers. It is kept with the version of its round and enters the memory when that
round is settled, so a server that is resumed takes it back with everything else.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from flwr.app import ConfigRecord, Message, RecordDict

from ..arrays import Arrays, is_averaged
from ..wire.requests import DELIVERY, HOSTED, LABEL_RECORD, Refusal, Request
from .participant import still_holds
from .store import Store
from .update import unweighted_names


def is_delivery(message: Message) -> bool:
    """Return whether a train message asks for no training but brings something."""
    return any(DELIVERY in config for config in message.content.config_records.values())


def receive(store: Store, request: Request, config: Mapping[str, Any], arrays: Arrays) -> None:
    """Keep what a delivery brings to a client, or refuse it."""
    number = config[DELIVERY]
    with store.locked(request.training):
        versions = [v for v in store.load(request.training) if still_holds(v, request)]
        last = versions[-1] if versions else None
        if last is None or last.round != number:
            known = (
                f"the last round that it answered is {last.round}" if last else "it has no state"
            )
            raise Refusal(f"{DELIVERY} is {number!r}, but {known}: it comes too late to be of use.")
        statistics = {*unweighted_names(arrays, request)}
        averaged = {
            name: value
            for name, value in arrays.items()
            if is_averaged(value.dtype) and name not in statistics
        }
        held = replace(last, memory=last.memory or {}, sent=last.sent or {}, received=averaged)
        store.save(request.training, [*versions[:-1], held])


def confirmation(message: Message, hosted: object = None) -> Message:
    """Return the reply to a delivery, which says nothing but, for a host, who has got it."""
    content = RecordDict()
    if isinstance(hosted, list):
        content[LABEL_RECORD] = ConfigRecord({HOSTED: hosted})
    return Message(content, reply_to=message)


def bare_confirmation(message: Message, reply: Message) -> Message:
    """Return a reply to a delivery with nothing in it but what belongs there, or its error."""
    if reply.has_error():
        return reply
    label = reply.content.config_records.get(LABEL_RECORD, ConfigRecord())
    return confirmation(message, label.get(HOSTED))
