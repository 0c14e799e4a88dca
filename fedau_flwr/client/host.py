"""A node that hosts many clients.

The server needs only sums, so a host trains its participants one after the other and replies
with the sum of their contributions: one message per host and round instead of one per client.
Each client keeps its own history, as if it were alone.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from flwr.app import ConfigRecord, Message

from .._log import log
from ..arrays import Arrays
from ..wire.dialects import reply_content
from ..wire.parts import Parts, added_parts
from ..wire.records import decode_all
from ..wire.requests import HOSTED, LABEL_RECORD, Refusal, hosted_requests
from .delivery import confirmation, is_delivery, receive
from .mod import refuse
from .participant import Participant
from .preparation import Preparation
from .separation import Resting, Separation

Train = Callable[[int, Arrays], Arrays]
_NO_RULE = Separation()


class Host:
    """Trains the clients that a message names and adds up their contributions.

    Parameters
    ----------
    participant : Callable[[int], Participant]
        Returns a client's side of the protocol by its number.
    separation : Separation (default: Separation())
        How often each of its clients takes part at most, whatever the server says.
    """

    def __init__(
        self, participant: Callable[[int], Participant], separation: Separation = _NO_RULE
    ) -> None:
        self._participant = participant
        self._separation = separation

    def contribute(
        self, config: Mapping[str, Any], model: Arrays, train: Train
    ) -> tuple[Parts, list[int]]:
        """Return the sum over the clients that `config` names, and who is in it.

        A client that cannot contribute (its update is not finite, or it rests) is left out;
        if none can, the host refuses as a whole.
        """
        preparation = Preparation.from_config(config)
        separation = Separation.from_config(config).with_own(self._separation)
        total: Parts | None = None
        included, refusals = [], []
        for client, request in hosted_requests(config).items():
            try:
                parts = self._participant(client).contribute(
                    request,
                    model,
                    partial(train, client),
                    preparation=preparation,
                    separation=separation,
                )
            except Refusal as refusal:
                if not isinstance(refusal, Resting):
                    log.error("Client %d: %s", client, refusal)
                refusals.append(refusal)
                continue
            included.append(client)
            total = added_parts(total, parts)
        if refusals and not included:
            raise refusals[0]
        return total or {}, included

    def receive(self, config: Mapping[str, Any], arrays: Arrays) -> list[int]:
        """Keep what a delivery brings to the clients that `config` names; return who has it."""
        reached = []
        for client, request in hosted_requests(config).items():
            try:
                receive(self._participant(client).store, request, config, arrays)
            except Refusal as refusal:
                log.error("Client %d: %s", client, refusal)
                continue
            reached.append(client)
        return reached

    def reply(self, message: Message, train: Train, name: str = "arrays") -> Message:
        """Answer a train message that names its clients, in the dialect of the Message API."""
        model = decode_all(message.content.array_records[name])
        if is_delivery(message):
            return confirmation(message, self.receive(message.content["config"], model))
        try:
            total, included = self.contribute(message.content["config"], model, train)
        except Refusal as refusal:
            return refuse(message, refusal)
        content = reply_content(name, model, total, {})
        content[LABEL_RECORD] = ConfigRecord({HOSTED: included})
        return Message(content, reply_to=message)
