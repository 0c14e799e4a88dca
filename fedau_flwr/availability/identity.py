"""Which client a node stands for, and a Flower grid whose nodes are in the order of clients.

Flower gives nodes random ids; only the node knows its number, in its node config. So the nodes are
asked.
"""

import logging
from collections.abc import Iterable
from math import inf
from typing import Any

from flwr.app import ConfigRecord, Context, Error, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid

from fedau_flwr import _flower
from fedau_flwr.server.forwarding import ForwardingGrid
from fedau_flwr.server.roster import Roster

log = logging.getLogger("flwr.fedau")

IDENTITY_RECORD = "fedau-identity"
CLIENT_KEY = "partition-id"
_ASK_AGAIN = (
    "MESSAGE_UNAVAILABLE",
    "REPLY_MESSAGE_UNAVAILABLE",
    "NODE_UNAVAILABLE",
    "CLIENT_APP_CRASHED",
)


def answer_identity(message: Message, context: Context) -> Message:
    """Answer a query with the client number of this node, ``partition-id`` in its node config.

    Register it with ``app.query()(answer_identity)``. An app that answers queries itself adds a
    ``ConfigRecord`` or ``MetricRecord`` with the integer ``partition-id`` to its answer instead.
    """
    client = context.node_config.get(CLIENT_KEY)
    if isinstance(client, bool) or not isinstance(client, int):
        reason = f"`{CLIENT_KEY}` in its node config is {client!r} and must be its client number"
        return Message(Error(_flower.ErrorCode.MOD_FAILED_PRECONDITION, reason), reply_to=message)
    record = ConfigRecord({CLIENT_KEY: client})
    return Message(RecordDict({IDENTITY_RECORD: record}), reply_to=message)


class Identities:
    """The client numbers, from 0 to ``clients - 1``, of a grid's nodes, asked for once per node."""

    def __init__(self, grid: Grid, clients: int, timeout: float) -> None:
        self.client_numbers: dict[int, int] = {}
        self._grid = grid
        self._clients = clients
        self._timeout = timeout

    def connected(self) -> list[int]:
        """Ask the nodes that are new, and return all that are known in the order of clients."""
        nodes = set(self._grid.get_node_ids())
        unknown = sorted(nodes - self.client_numbers.keys())
        if unknown:
            self._ask(unknown)
        # A node that came back under a new id replaces its old self, which may look connected yet.
        newest = {client: node for node, client in self.client_numbers.items() if node in nodes}
        return [newest[client] for client in sorted(newest)]

    def _ask(self, nodes: list[int]) -> None:
        question = RecordDict({IDENTITY_RECORD: ConfigRecord()})
        queries = [Message(question, node, MessageType.QUERY, ttl=self._timeout) for node in nodes]
        answers = self._grid.send_and_receive(queries, timeout=self._timeout)
        taken = set(self.client_numbers.values())
        for client, node in sorted((client, node) for node, client in self._read(answers)):
            if client in taken:
                log.warning(
                    "Node %d takes the place of an earlier node of client %d.", node, client
                )
            taken.add(client)
            self.client_numbers[node] = client
        silent = [node for node in nodes if node not in self.client_numbers]
        if silent:
            words = "%d of %d nodes did not say which client they are and are left out: node %d, …"
            log.warning(words, len(silent), len(nodes), silent[0])

    def _read(self, answers: Iterable[Message]) -> Iterable[tuple[int, int]]:
        for answer in answers:
            node = answer.metadata.src_node_id
            if answer.has_error():
                if answer.error.code in [getattr(_flower.ErrorCode, n) for n in _ASK_AGAIN]:
                    continue
                raise _no_identity(node, answer.error)
            client = _client_number(answer.content)
            if client is None:
                reason = f"its answer holds no integer `{CLIENT_KEY}`"
                raise _no_identity(node, Error(_flower.ErrorCode.UNKNOWN, reason))
            if not 0 <= client < self._clients:
                raise ValueError(
                    f"Node {node} says that it is client {client}: "
                    f"the participation process has the clients 0 to {self._clients - 1}."
                )
            yield node, client


def _client_number(content: RecordDict) -> int | None:
    records: list[ConfigRecord | MetricRecord] = [*content.config_records.values()]
    for record in [*records, *content.metric_records.values()]:
        client = record.get(CLIENT_KEY)
        if isinstance(client, int) and not isinstance(client, bool):
            return client
    return None


def _no_identity(node: int, error: Error) -> ValueError:
    # Ray puts a whole traceback into the reason; what happened is in its last line.
    reason = (error.reason or "no reason given").strip().splitlines()[-1][:200]
    if error.code == _flower.ErrorCode.MOD_FAILED_PRECONDITION:
        return ValueError(f"Node {node} cannot say which client it is: {reason}.")
    return ValueError(
        f"Node {node} did not say which client it is ({reason}): "
        "add `app.query()(fedau_flwr.availability.answer_identity)` to the ClientApp."
    )


class IdentifiedGrid(ForwardingGrid):
    """All nodes that have said which client they are; nodes and replies are in client order.

    Node ids are random and replies come as they come; a sum over them repeats bit for bit only in a
    fixed order.
    """

    def __init__(self, grid: Grid, identities: Identities) -> None:
        super().__init__(grid)
        self._identities = identities

    @property
    def client_numbers(self) -> dict[int, int]:
        """Client number of each node id that has been seen so far."""
        return self._identities.client_numbers

    @property
    def roster(self) -> Roster:
        """Which client a node stands for, for a strategy of this package."""
        return Roster(self.client_numbers)

    def get_node_ids(self) -> list[int]:
        """Return the ids of the shown nodes by client number."""
        return self._identities.connected()

    def get_nodes(self) -> list[Any]:
        """Return what the underlying grid knows about the shown nodes, by client number."""
        known = {node.node_id: node for node in self._grid.get_nodes()}
        return [known[node] for node in self.get_node_ids() if node in known]

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Pull replies through the underlying grid."""
        return self._arrived(self._grid.pull_messages(message_ids))

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> list[Message]:
        """Send through the underlying grid and return the replies by client number."""
        to_send = list(messages)
        if not to_send:
            return []
        replies = self._arrived(self._grid.send_and_receive(to_send, timeout=timeout))
        return sorted(
            replies, key=lambda reply: self.client_numbers.get(reply.metadata.src_node_id, inf)
        )

    def _arrived(self, replies: Iterable[Message]) -> list[Message]:
        return list(replies)
