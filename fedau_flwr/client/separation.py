"""Minimum separation: how often a client takes part at most, kept by the client itself.

Where nobody samples clients, nothing but this bounds how many sums a client's data enter. A round
that the client rests in is an absence like any other, and FedAU's weights correct for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .._log import log
from ..checks import check
from ..weighting import FedAUWeighting, Weighting
from ..wire.requests import Refusal, Request
from .answered import Answers

if TYPE_CHECKING:
    from ..server.ledger import Ledger

SEPARATION = "fedau-separation"
PARTICIPATIONS = "fedau-participations"
RESTING = "This client keeps its rounds apart and rests in this one."
"""The reason of every such absence; it says nothing about the client's other rounds."""


class Resting(Refusal):
    """The client rests; the server takes it for an absence."""

    def __init__(self) -> None:
        super().__init__(RESTING)


@dataclass(frozen=True, slots=True)
class Separation:
    """At most once in `rounds` rounds, and at most `limit` times in a training.

    Parameters
    ----------
    rounds : int (default: 1)
        `b`: any two rounds that a client answers are at least so many apart, over all attempts.
    limit : int | None (default: None)
        The most rounds that it answers, if there is a limit.
    """

    rounds: int = 1
    limit: int | None = None

    def __post_init__(self) -> None:
        _check(SEPARATION, self.rounds)
        if self.limit is not None:
            _check(PARTICIPATIONS, self.limit)

    def __bool__(self) -> bool:
        return self.rounds > 1 or self.limit is not None

    def with_own(self, other: Separation) -> Separation:
        """Return the stricter of both rules."""
        limits = [limit for limit in (self.limit, other.limit) if limit is not None]
        return Separation(max(self.rounds, other.rounds), min(limits, default=None))

    def to_config(self) -> dict[str, int]:
        """Return the entries of a train message's config; none for a rule that forbids nothing."""
        config = {SEPARATION: self.rounds} if self.rounds > 1 else {}
        return config if self.limit is None else {**config, PARTICIPATIONS: self.limit}

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Separation:
        """Read the rule in a train message or in a node config."""
        rounds, limit = config.get(SEPARATION, 1), config.get(PARTICIPATIONS)
        try:
            return cls(rounds, limit)  # type: ignore[arg-type]  # checked there
        except ValueError as error:
            raise Refusal(str(error)) from None

    def check(self, answers: Answers, request: Request) -> None:
        """Rest in a round that is too close to one that was answered, or after the last one."""
        spent = self.limit is not None and answers.count >= self.limit
        # The server's word counts too, should the client have lost its own record.
        counted = self.rests(request.counted or 0, request.round)
        if spent or counted or answers.near(request.round, self.rounds):
            raise Resting

    def rests(self, last: int, server_round: int) -> bool:
        """Return whether a client that was counted in round `last` (0: never) will rest."""
        return last > 0 and server_round < last + self.rounds

    def awake(self, clients: list[int], ledger: Ledger) -> list[int]:
        """Return those who are worth asking in the running round, as far as the server knows."""
        if self.rounds == 1:
            return clients
        last, now = ledger.counted, ledger.round
        return [client for client in clients if not self.rests(last.get(client, 0), now)]

    @property
    def cutoff(self) -> int:
        """The default cutoff K: intervals are `b + 1/p` on average, so it is far above b."""
        return max(50, 4 * self.rounds)

    def check_cutoff(self, weighting: Weighting, *, warn: bool = False) -> None:
        """Raise ValueError for a cutoff that cuts nearly every interval off, or warn of others."""
        cutoff = weighting.cutoff if isinstance(weighting, FedAUWeighting) else None
        if self.rounds == 1 or cutoff is None:
            return
        if cutoff <= self.rounds:
            raise ValueError(
                f"cutoff is {cutoff}, but must be above {self.rounds}, the separation of a "
                f"client's rounds, and better {self.cutoff}: FedAUWeighting({self.cutoff})."
            )
        if warn and cutoff < 4 * self.rounds:
            log.warning(
                "cutoff is %d, but should be at least %d, four times the separation of a client's "
                "rounds: weights of clients that come seldom will be too small.",
                cutoff,
                4 * self.rounds,
            )


def _check(key: str, value: object) -> None:
    check(key, value, type(value) is int and value >= 1, "an integer >= 1")
