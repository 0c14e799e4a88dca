"""A Flower grid whose nodes host the clients that come and go."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Message, MessageType, RecordDict
from flwr.serverapp import Grid
from numpy.typing import ArrayLike, NDArray

from ..server.roster import Roster
from ..wire.requests import HOSTED
from .grid import AvailabilityGrid
from .process import Process


def deal(participants: ArrayLike, hosts: int) -> list[list[int]]:
    """Deal participants to hosts in turn, so that no host has more than one above another."""
    clients = np.asarray(participants, dtype=np.int64)
    return [clients[host::hosts].tolist() for host in range(hosts)]


class _HostRoster(Roster):
    """The clients that are dealt to each node."""

    hosting = True

    def __init__(self, grid: HostGrid) -> None:
        super().__init__(grid.client_numbers)
        self._grid = grid

    def clients(self, node: int) -> list[int]:
        """Return the clients that a node is asked for in the running round."""
        return self._grid.hosted(node)


class HostGrid(AvailabilityGrid):
    """Deals the clients that are there in a round to the nodes and shows the nodes that have some.

    Who serves a client depends on the round and on the nodes' numbers alone, so a run repeats. A
    fixed assignment would leave some hosts idle while others still work. ::

        grid = HostGrid(grid, Bernoulli(p, seed=1))
        strategy = FedAU(num_clients=N, roster=grid.roster)

    A strategy that knows nothing of hosts, such as Flower's own, gets the numbers of the
    participants into its train messages on their way: as the list ``fedau-clients`` in the config
    record. Its options are those of `AvailabilityGrid`; where ``loss`` takes the train reply of a
    host away, none of its participants counts.
    """

    def __init__(self, grid: Grid, process: Process, **options: Any) -> None:
        super().__init__(grid, process, **options)
        self._dealt: tuple[int, int] | None = None
        self._rosters: list[list[int]] = []

    def participants(self) -> NDArray[np.int64]:
        """Return the numbers of the clients that are there in this round."""
        return np.flatnonzero(self._process.active(self._round_index()))

    @property
    def roster(self) -> Roster:
        """Which clients a node stands for, for a strategy of this package."""
        return _HostRoster(self)

    def hosted(self, node: int) -> list[int]:
        """Return the clients that a node serves in this round."""
        return self._rosters[self.client_numbers[node]] if self._rosters else []

    def get_node_ids(self) -> list[int]:
        """Return the ids of the nodes that have participants in this round, by host number."""
        nodes = self.everyone().get_node_ids()
        if not nodes:
            return []
        numbers = [self.client_numbers[node] for node in nodes]
        hosts = max(numbers) + 1
        if hosts != len(nodes):
            raise RuntimeError(
                f"{len(nodes)} hosts are connected, but their numbers go up to {hosts - 1}: "
                "every host from 0 on must be there, or some clients have nobody to serve them."
            )
        if self._dealt != (self._round_index(), hosts):
            self._rosters = deal(self.participants(), hosts)
            self._dealt = (self._round_index(), hosts)
        return [node for node in nodes if self.hosted(node)]

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Push messages through the underlying grid, train messages with their participants."""
        return super().push_messages([*map(self._addressed, messages)])

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> list[Message]:
        """Send through the underlying grid and return the replies by host number."""
        return super().send_and_receive([*map(self._addressed, messages)], timeout=timeout)

    def _addressed(self, message: Message) -> Message:
        """Return a message that names its clients, unless it does so already."""
        if message.metadata.message_type.split(".")[0] != MessageType.TRAIN:
            return message
        configs = message.content.config_records
        if any(HOSTED in config for config in configs.values()):
            return message
        # Strategies put one and the same content into all of their messages.
        content = RecordDict({**message.content})
        name = next(iter(configs), "config")
        hosted = self.hosted(message.metadata.dst_node_id)
        content[name] = ConfigRecord({**configs.get(name, {}), HOSTED: hosted})
        head = message.metadata
        return Message(
            content, head.dst_node_id, head.message_type, ttl=head.ttl, group_id=head.group_id
        )
