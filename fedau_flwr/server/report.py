"""What a round came to, for logs and dashboards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .._log import log
from .reasons import sentence

if TYPE_CHECKING:
    from .summation import Round, Sum


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundReport:
    """One round as the server saw it; `SumStrategy.last_round` holds that of the last one."""

    round: int  # its number, from 1
    asked: int  # nodes that were asked
    counted: int  # clients in the sum
    rejected: int  # nodes whose reply was an error or not what it has to be
    absent: int  # nodes that did not reply within the round
    seconds: float  # from the first message to the end of the sum
    clients: tuple[int, ...] = ()  # those in the sum, by number where known, else by node id
    nodes: tuple[int, ...] = ()  # those that were asked
    reasons: Mapping[int, str] = field(default_factory=dict)  # why a node's reply was rejected

    @classmethod
    def of(cls, this: Round, result: Sum, seconds: float) -> RoundReport:
        """Return the report of a round that was summed up."""
        return cls(
            round=this.number,
            asked=len(this.asked),
            counted=len(result.clients),
            rejected=len(result.rejected),
            absent=len(this.asked.keys() - result.nodes - result.rejected.keys()),
            seconds=seconds,
            clients=tuple(result.clients),
            nodes=tuple(this.asked),
            reasons={node: sentence(reason) for node, reason in result.rejected.items()},
        )

    def numbers(self) -> dict[str, float]:
        """Return the round in numbers, for other programs."""
        names = ("round", "asked", "counted", "rejected", "absent", "seconds")
        return {name: getattr(self, name) for name in names}

    def log(self) -> None:
        """Write a line about the round, and one for each reply that was rejected."""
        numbers = (self.round, self.counted, self.rejected, self.absent, self.seconds)
        log.info("Round %d: %d counted, %d rejected, %d without reply, %.1f s", *numbers)
        for node, reason in self.reasons.items():
            log.warning("Rejected the reply of node %d: %s.", node, reason)
