"""What a round came to, for logs and dashboards."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundReport:
    """One round as the server saw it; `FedAU.last_round` holds that of the last one.

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
        Who is in the sum: client numbers where they are known, node ids elsewhere.
    """

    round: int
    asked: int
    counted: int
    rejected: int
    absent: int
    seconds: float
    clients: tuple[int, ...] = ()
