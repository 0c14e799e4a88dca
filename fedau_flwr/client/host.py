"""A node that hosts many clients.

The server needs only sums, so a host trains its participants one after the other and replies
with the sum of their contributions: one message per host and round instead of one per client.
Each client keeps its own history, as if it were alone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from flwr.app import ConfigRecord, Message

from ..arrays import Arrays
from ..wire.dialects import reply_content
from ..wire.parts import Parts, add_parts, copied
from ..wire.records import decode_all
from ..wire.requests import HOSTED, LABEL_RECORD, Refusal, hosted_requests
from .contribution import with_placeholders
from .mod import refuse
from .participant import Participant
from .preparation import Preparation

log = logging.getLogger("flwr.fedau")


class Host:
    """Trains the clients that a message names and adds up their contributions.

    Parameters
    ----------
    participant : Callable[[int], Participant]
        Returns a client's side of the protocol by its number.
    """

    def __init__(self, participant: Callable[[int], Participant]) -> None:
        self._participant = participant

    def contribute(
        self, config: Mapping[str, Any], model: Arrays, train: Callable[[int, Arrays], Arrays]
    ) -> tuple[Parts, ConfigRecord]:
        """Return the sum over the clients that `config` names, and the label that lists them.

        A client that cannot contribute (its update is not finite) is left out and said to be;
        if none can, the host refuses as a whole.
        """
        preparation = Preparation.from_config(config)
        total: Parts = {}
        included = []
        refusals = []
        for client, request in hosted_requests(config).items():
            participant = self._participant(client)
            try:
                parts = participant.contribute(
                    request, model, partial(train, client), preparation=preparation
                )
            except Refusal as refusal:
                log.error("Client %d: %s", client, refusal)
                refusals.append(refusal)
                continue
            included.append(client)
            if total:
                add_parts(total, parts)
            else:
                total = copied(parts)
        if refusals and not included:
            raise refusals[0]
        return total, ConfigRecord({HOSTED: included})

    def reply(
        self, message: Message, train: Callable[[int, Arrays], Arrays], name: str = "arrays"
    ) -> Message:
        """Answer a train message that names its clients, in the dialect of the Message API."""
        model = decode_all(message.content.array_records[name])
        try:
            total, label = self.contribute(message.content["config"], model, train)
        except Refusal as refusal:
            return refuse(message, refusal)
        main = with_placeholders(next(iter(total.values())), model)
        content = reply_content(name, main, total, {})
        content[LABEL_RECORD] = label
        return Message(content, reply_to=message)
