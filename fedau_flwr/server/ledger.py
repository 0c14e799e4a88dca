"""The server's side of the participation protocol: who was counted when."""

import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..wire.requests import Request, hosted_config


@dataclass(slots=True)
class Ledger:
    """Last counted round of every client, and the attempts of one training.

    Clients are named by integers: node ids, or numbers where the caller knows them.
    """

    training: str = field(default_factory=lambda: f"t{uuid.uuid4().hex}")
    attempts: list[tuple[int, int]] = field(default_factory=lambda: [(1, 1)])
    round: int = 0
    safe: int | None = None
    counted: dict[int, int] = field(default_factory=dict)
    released: int = 0  # the last round whose sum is on the disk: no attempt goes back before it

    def open(self, server_round: int) -> None:
        """Begin a round, which must come after the last one."""
        if server_round <= self.round:
            raise ValueError(
                f"server_round is {server_round}, but round {self.round} has been run already; "
                "go on with the next one."
            )
        self.round = server_round

    def request(self, client: int, **fields: Any) -> Request:
        """Return what this round's message tells `client`, and remember that it was asked."""
        fields = {"counted": self.counted.get(client), **fields}
        self.counted.setdefault(client, 0)
        return Request(
            round=self.round,
            training=self.training,
            client=client,
            attempts=tuple(self.attempts),
            safe=None if self.safe is None else max(self.safe, self.released),
            **fields,
        )

    def config(self, clients: Iterable[int], *, hosting: bool, **fields: Any) -> dict[str, Any]:
        """Return the entries of this round's message to the node of these clients."""
        requests = [self.request(client, **fields) for client in clients]
        return hosted_config(requests) if hosting else {**requests[0].to_config()}

    def replay(self, clients: Iterable[int]) -> None:
        """Note who was asked in this round, which is not run again, by an earlier attempt."""
        for client in clients:
            self.counted.setdefault(client, 0)

    def resume_after(self, server_round: int, attempts: Sequence[tuple[int, int]]) -> None:
        """Start later than after the checkpoint, up to where `attempts` have come: nobody is asked.

        These may have ended without a checkpoint of their own, but what they counted stays counted.
        """
        number, start = self.attempts[-1]
        self.released = server_round
        if server_round >= start:
            number = max(number, attempts[-1][0] + 1)
            self.attempts = [*attempts, (number, server_round + 1)]

    def count(self, clients: Iterable[int], *, released: bool = False) -> None:
        """Note that the contributions of `clients` are in this round's sum, and if it is safe."""
        if released:
            self.released = self.round
        for client in clients:
            self.counted[client] = self.round

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint needs."""
        return {
            "training": self.training,
            "attempts": list(self.attempts),
            "round": self.round,
            "counted": dict(self.counted),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a checkpoint, as a new attempt that starts with the round after it."""
        self.training = state["training"]
        self.round = self.safe = state["round"]
        attempts = [(number, start) for number, start in state["attempts"]]
        # The clock, and not a count: an attempt that died before it wrote a checkpoint of its
        # own must not share its number with the next one from the same checkpoint.
        number = max(attempts[-1][0] + 1, time.time_ns() // 1_000_000)
        self.attempts = [*attempts, (number, self.round + 1)]
        # A checkpoint kept as JSON has its keys as strings.
        self.counted = {int(client): last for client, last in state["counted"].items()}
