"""A Flower grid that hands everything on to another one."""

from collections.abc import Iterable
from typing import Any

from flwr.app import Message
from flwr.serverapp import Grid


class ForwardingGrid(Grid):
    """Does what `grid` does; subclasses override what differs."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid

    @property
    def target(self) -> Grid:
        """The underlying grid."""
        return self._grid

    def forward_to(self, grid: Grid) -> None:
        """Hand on to another grid from now on."""
        self._grid = grid

    def set_run(self, run: Any) -> None:
        """Set the run of the underlying grid."""
        self._grid.set_run(run)

    @property
    def run(self) -> Any:
        """Run of the underlying grid."""
        return self._grid.run

    def create_message(self, *args: Any, **kwargs: Any) -> Message:
        """Create a message on the underlying grid."""
        return self._grid.create_message(*args, **kwargs)

    def get_node_ids(self) -> Iterable[int]:
        """Return the ids of the connected nodes."""
        return self._grid.get_node_ids()

    def get_nodes(self) -> Iterable[Any]:
        """Return what the underlying grid knows about the connected nodes."""
        return self._grid.get_nodes()

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Push messages through the underlying grid."""
        return self._grid.push_messages(messages)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Pull replies through the underlying grid."""
        return self._grid.pull_messages(message_ids)

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Send through the underlying grid and return the replies."""
        return self._grid.send_and_receive(messages, timeout=timeout)
