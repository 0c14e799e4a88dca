"""Saying which client a node stands for, when the grid of a simulation asks.

The question comes as a train message, since mods see nothing else for sure: Flower hands them a
query only if the app has a function for it.
"""

from collections.abc import Callable

from flwr.app import ConfigRecord, Context, Error, Message, MessageType, RecordDict

from .. import _flower

IDENTITY = "fedau_identity"
"""Name of the query, so that it is none that an app has already."""
IDENTITY_RECORD = "fedau-identity"
CLIENT_KEY = "partition-id"


def asks_identity(message: Message) -> bool:
    """Return whether a message asks which client this is."""
    kind = message.metadata.message_type.split(".")[0]
    return kind in {MessageType.QUERY, MessageType.TRAIN} and IDENTITY_RECORD in message.content


def answer_identity(
    message: Message,
    context: Context,
    call_next: Callable[[Message, Context], Message] | None = None,
) -> Message:
    """Answer with the client number of this node, ``partition-id`` in its node config.

    `FedAUMod` and `SecureSumMod` do so by themselves. Any other app has it as its first mod,
    ``ClientApp(mods=[answer_identity])``, or as a query: ``app.query("fedau_identity")``.
    """
    if call_next is not None and not asks_identity(message):
        return call_next(message, context)
    client = context.node_config.get(CLIENT_KEY)
    if isinstance(client, bool) or not isinstance(client, int):
        reason = f"`{CLIENT_KEY}` in its node config is {client!r} and must be its client number"
        return Message(Error(_flower.ErrorCode.MOD_FAILED_PRECONDITION, reason), reply_to=message)
    record = ConfigRecord({CLIENT_KEY: client})
    return Message(RecordDict({IDENTITY_RECORD: record}), reply_to=message)
