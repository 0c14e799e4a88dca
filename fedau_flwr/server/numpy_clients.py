"""Finding out from the first answers that clients are `NumPyClient`s."""

from collections.abc import Iterable
from dataclasses import replace

from flwr.app import Message

from .._log import log
from ..wire.dialects import in_numpy_records
from .reasons import is_numpy_client
from .replies import expected
from .summation import Round


def are_numpy_clients(replies: Iterable[Message]) -> bool:
    """Return whether all answers are errors, as `NumPyClient`s have that are asked in records."""
    reasons = [reply.error.reason or "" if reply.has_error() else "" for reply in replies]
    return bool(reasons) and all(map(is_numpy_client, reasons))


def ask_numpy_clients(
    this: Round, sent: list[Message], replies: list[Message], secure: bool
) -> tuple[Round, list[Message]]:
    """Ask the same again in the records of a `NumPyClient`; return the round and its answers.

    A secure sum cannot be opened twice in a round: there the next round is the first that counts.
    """
    log.info("The clients are NumPyClients, so messages have their records from now on.")
    if secure:
        return this, replies
    messages = [in_numpy_records(message) for message in sent]
    answers = list(this.grid.send_and_receive(messages, timeout=this.timeout))
    return replace(this, layout=this.layout.numbered()), expected(answers, this.asked)
