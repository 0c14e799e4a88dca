"""Which client a node stands for, and a Flower grid whose nodes are in the order of clients.

Flower gives nodes random ids; only the node knows its number, in its node config. So the nodes are
asked.
"""

from collections.abc import Iterable
from math import inf
from typing import Any

from flwr.app import ConfigRecord, Error, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid

from .. import _flower
from .._log import log
from ..client.identity import CLIENT_KEY, IDENTITY, IDENTITY_RECORD
from ..server.forwarding import ForwardingGrid
from ..server.reasons import sentence
from ..server.roster import Roster
from ..wire.requests import ROUND

_ASK_AGAIN = (
    "MESSAGE_UNAVAILABLE",
    "REPLY_MESSAGE_UNAVAILABLE",
    "NODE_UNAVAILABLE",
    "CLIENT_APP_CRASHED",
)


class Identities:
    """The client numbers, from 0 to ``clients - 1``, of a grid's nodes, asked for once per node."""

    def __init__(self, grid: Grid, clients: int, timeout: float) -> None:
        self.client_numbers: dict[int, int] = {}
        self._grid = grid
        self._clients = clients
        self._timeout = timeout
        self._kinds = [MessageType.TRAIN, f"{MessageType.QUERY}.{IDENTITY}", MessageType.QUERY]

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
        """Ask one node first, since Flower logs a traceback for each that does not understand."""
        found = self._numbers(nodes[:1]) | self._numbers(nodes[1:])
        taken = set(self.client_numbers.values())
        for client, node in sorted((client, node) for node, client in found.items()):
            if client in taken:
                words = "Node %d takes the place of an earlier node of client %d."
                log.warning(words, node, client)
            taken.add(client)
            self.client_numbers[node] = client
        silent = [node for node in nodes if node not in self.client_numbers]
        if silent:
            words = "%d of %d nodes did not say which client they are and are left out: node %d, …"
            log.warning(words, len(silent), len(nodes), silent[0])

    def _numbers(self, nodes: list[int]) -> dict[int, int]:
        """Return the numbers of those who answer, asked in the way that the first one understood.

        Mods answer a train message; an app that has none for it may have a query.
        """
        failed: dict[int, Error] = {}
        while nodes:
            found, failed = self._read(self._answers(self._kinds[0], nodes))
            if found or not failed or len(self._kinds) == 1 or _is_final(failed):
                break
            self._kinds = self._kinds[1:]
        for node, error in failed.items():
            raise _no_identity(node, error)
        return found if nodes else {}

    def _answers(self, kind: str, nodes: list[int]) -> Iterable[Message]:
        # Mods of the app see the question as well, and may look for a config as others have it.
        content = RecordDict({IDENTITY_RECORD: ConfigRecord(), "config": ConfigRecord({ROUND: 0})})
        queries = [Message(content, node, kind, ttl=self._timeout) for node in nodes]
        return self._grid.send_and_receive(queries, timeout=self._timeout)

    def _read(self, answers: Iterable[Message]) -> tuple[dict[int, int], dict[int, Error]]:
        """Return the client numbers of those who said it, and the errors of those who cannot."""
        found: dict[int, int] = {}
        failed: dict[int, Error] = {}
        for answer in answers:
            node = answer.metadata.src_node_id
            if answer.has_error():
                if answer.error.code not in [getattr(_flower.ErrorCode, n) for n in _ASK_AGAIN]:
                    failed[node] = answer.error
                continue
            client = _client_number(answer.content)
            if client is None:
                reason = f"its answer holds no integer {CLIENT_KEY}"
                failed[node] = Error(_flower.ErrorCode.UNKNOWN, reason)
            elif not 0 <= client < self._clients:
                raise ValueError(
                    f"Node {node} says that it is client {client}: "
                    f"the participation process has the clients 0 to {self._clients - 1}."
                )
            else:
                found[node] = client
        return found, failed


def _client_number(content: RecordDict) -> int | None:
    records: list[ConfigRecord | MetricRecord] = [*content.config_records.values()]
    for record in [*records, *content.metric_records.values()]:
        client = record.get(CLIENT_KEY)
        if isinstance(client, int) and not isinstance(client, bool):
            return client
    return None


def _is_final(failed: dict[int, Error]) -> bool:
    """Return whether a node understood the question, and has no number."""
    return any(f"`{CLIENT_KEY}`" in (error.reason or "") for error in failed.values())


def _no_identity(node: int, error: Error) -> ValueError:
    reason = sentence(error.reason or "no reason given")
    if _is_final({node: error}):
        return ValueError(f"Node {node} cannot say which client it is: {reason}.")
    return ValueError(
        f"Node {node} did not say which client it is ({reason}): where no FedAUMod answers, "
        "the app needs `ClientApp(mods=[fedau_flwr.answer_identity, ...])`."
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
