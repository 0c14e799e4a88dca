"""A Flower grid that runs a real ClientApp for every node within the test's own process."""

from collections.abc import Iterable
from typing import Any
from uuid import uuid4

from flwr.app import Context, Error, Message, RecordDict, UserConfigValue
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid

from .. import _flower


class InProcessGrid(Grid):
    """Nodes answer as soon as a message is pushed; all messages pass through Flower's wire format.

    Node ids are scattered, so that nothing works just because ids happen to be client numbers.

    Parameters
    ----------
    app : ClientApp
        What every node runs.
    clients : int
        Number of nodes to start with; they get the partition ids 0, 1, …
    run_config : dict, optional
        The run config of every node's context.
    node_config : dict, optional
        What the node config of every node holds beside its partition id.
    """

    keeps_deadlines = True

    def __init__(
        self,
        app: ClientApp,
        clients: int,
        run_config: dict[str, UserConfigValue] | None = None,
        node_config: dict[str, UserConfigValue] | None = None,
    ) -> None:
        identity = _flower.TaskIdentity
        identity.run_id, identity.node_id, identity.task_id = 1, _flower.SUPERLINK_NODE_ID, 1
        self.app = app
        self.contexts: dict[int, Context] = {}
        self.silent: set[int] = set()
        self.received: list[Message] = []
        self._run = _flower.Run.create_empty(run_id=1)
        self._run_config = run_config or {}
        self._replies: dict[str, Message] = {}
        for client in range(clients):
            number = {"partition-id": client, "num-partitions": clients}
            self.connect({**number, **(node_config or {})})

    def connect(self, node_config: dict[str, UserConfigValue]) -> int:
        """Add a node and return its id."""
        node_id = (len(self.contexts) + 1) * 0x9E3779B97F4A7C15 % 2**63
        self.contexts[node_id] = Context(
            run_id=1,
            node_id=node_id,
            node_config=node_config,
            state=RecordDict(),
            run_config=self._run_config,
        )
        return node_id

    def disconnect(self, node_id: int) -> None:
        """Remove a node."""
        del self.contexts[node_id]

    def set_run(self, run: Any) -> None:
        """Set the run."""
        self._run = run

    @property
    def run(self) -> Any:
        """The run."""
        return self._run

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        """Create a message."""
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> Iterable[int]:
        """Return the ids of the connected nodes."""
        return set(self.contexts)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Have every message answered, and return their ids."""
        ids = []
        for message in messages:
            message.metadata.__dict__["_message_id"] = str(uuid4())
            ids.append(message.metadata.message_id)
            if message.metadata.dst_node_id not in self.silent:
                self._replies[ids[-1]] = self._answer(message)
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Return the replies to messages, once."""
        return [self._replies.pop(key) for key in list(message_ids) if key in self._replies]

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Return the replies in the order of the messages; a silent node's is missing at once."""
        return self.pull_messages(self.push_messages(messages))

    def _answer(self, message: Message) -> Message:
        received = _through_the_wire(message)
        self.received.append(received)
        try:
            reply = self.app(received, self.contexts[received.metadata.dst_node_id])
        except Exception as error:
            reason = f"{type(error)}:<'{error}'>"
            failure = Error(_flower.ErrorCode.CLIENT_APP_RAISED_EXCEPTION, reason)
            reply = Message(failure, reply_to=received)
        reply.metadata.__dict__["_message_id"] = str(uuid4())
        return _through_the_wire(reply)


def _through_the_wire(message: Message) -> Message:
    """Return a message as the other side gets it."""
    received: Message = _flower.message_from_proto(_flower.message_to_proto(message))
    return received
