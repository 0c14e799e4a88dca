"""Which round it is, from the messages that pass by."""

from collections.abc import Iterable

from flwr.app import Message, MessageType

from ..wire.requests import ROUND


class FollowedRound:
    """Counts rounds as ``Strategy.start()`` runs them: an exchange to train, one to evaluate.

    Both take place also if nobody is asked. Flower's strategies put the round's number into
    every train message, by which the count is checked.
    """

    def __init__(self) -> None:
        self.number = 1
        self._trained = False

    def check(self, messages: Iterable[Message]) -> None:
        """Raise RuntimeError if train messages are of another round than the counted one."""
        for message in messages:
            if _kind(message) != MessageType.TRAIN:
                continue
            configs = message.content.config_records.values()
            said = next((config[ROUND] for config in configs if ROUND in config), None)
            if self._trained or said not in {None, self.number}:
                raise RuntimeError(
                    f"AvailabilityGrid showed the nodes of round {self.number}, but a message says "
                    f"round {said!r}: call grid.set_round(server_round) before each round."
                )

    def passed(self, messages: list[Message]) -> None:
        """Note an exchange."""
        if messages and _kind(messages[0]) not in {MessageType.TRAIN, MessageType.EVALUATE}:
            return
        self.number += self._trained
        self._trained = not self._trained


def _kind(message: Message) -> str:
    return message.metadata.message_type.split(".")[0]
