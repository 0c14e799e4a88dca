"""What a round came to, for logs and dashboards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .._log import log
from .reasons import sentence

if TYPE_CHECKING:
    from .summation import Round, Sum


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundReport:
    """One round as the server saw it; `SumStrategy.last_round` holds that of the last one.

    Parameters
    ----------
    round : int
        Its number, from 1.
    asked : int
        Nodes that were asked.
    counted : int
        Clients in the sum.
    rejected : int
        Nodes whose reply was an error or not what it has to be.
    absent : int
        Nodes that did not reply within the round.
    seconds : float
        From the first message to the end of the sum.
    clients : tuple[int, ...]
        The clients in the sum, by number where that is known, else by node id.
    """

    round: int
    asked: int
    counted: int
    rejected: int
    absent: int
    seconds: float
    clients: tuple[int, ...] = ()

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
        )

    def log(self, rejected: Mapping[int, str]) -> None:
        """Write a line about the round, and one for each reply that was rejected."""
        numbers = (self.round, self.counted, self.rejected, self.absent, self.seconds)
        log.info("Round %d: %d counted, %d rejected, %d without reply, %.1f s", *numbers)
        for node, reason in rejected.items():
            log.warning("Rejected the reply of node %d: %s.", node, sentence(reason))
