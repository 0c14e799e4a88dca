"""The server's side of the participation protocol: who was counted when."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .protocol import Request


@dataclass(slots=True)
class Ledger:
    """Last counted round of every client, and the attempts of one training.

    Clients are named by integers: node ids, or numbers where the caller knows them.
    """

    training: str = field(default_factory=lambda: f"t{uuid.uuid4().hex}")
    starts: list[int] = field(default_factory=lambda: [1])
    round: int = 0
    safe: int | None = None
    counted: dict[int, int] = field(default_factory=dict)

    def open(self, server_round: int) -> None:
        """Begin a round, which must come after the last one."""
        if server_round <= self.round:
            raise ValueError(
                f"server_round is {server_round}, but round {self.round} has been run already; "
                "go on with the next one."
            )
        self.round = server_round

    def request(
        self, client: int, *, memory: bool = False, groups: Mapping[str, float] | None = None
    ) -> Request:
        """Return what this round's message tells `client`, and remember that it was asked."""
        request = Request(
            round=self.round,
            training=self.training,
            starts=tuple(self.starts),
            counted=self.counted.get(client),
            safe=self.safe,
            memory=memory,
            groups=groups or {},
        )
        self.counted.setdefault(client, 0)
        return request

    def count(self, clients: Iterable[int]) -> None:
        """Note that the contributions of `clients` are in this round's sum."""
        for client in clients:
            self.counted[client] = self.round

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint needs."""
        return {
            "training": self.training,
            "starts": list(self.starts),
            "round": self.round,
            "counted": dict(self.counted),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a checkpoint, as a new attempt that starts with the round after it."""
        self.training = state["training"]
        self.round = self.safe = state["round"]
        self.starts = [*state["starts"], self.round + 1]
        self.counted = dict(state["counted"])
