"""A Flower grid whose nodes are in the order of their client numbers."""

from collections.abc import Iterable
from math import inf
from typing import Any

from flwr.app import Message
from flwr.serverapp import Grid

from fedau_flwr.server.forwarding import ForwardingGrid
from fedau_flwr.server.roster import Roster

from .identity import Identities


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
