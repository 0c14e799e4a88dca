"""Adding up contributions, the one thing a server has to do.

A summation opens a round (it may talk to the nodes before they train) and closes it with the
sum over the replies that it accepts. `PlainSum` is the default; a secure one takes its place
without any strategy noticing, and privacy is a wrapper around either.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from flwr.app import Message, MetricRecord, RecordDict
from flwr.serverapp import Grid

from .._log import log
from ..arrays import is_finite
from ..client.preparation import WITHIN
from ..client.separation import Separation
from ..privacy.clipping import l2_norm
from ..wire.parts import Layout, Parts, added_parts
from .replies import Rejection, read_contribution, read_extras, read_hosted

NORM_SLACK = 1e-5
"""What adding up clipped contributions on a host may add to their norm."""


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """What a summation knows about the round that it adds up."""

    number: int  # Flower's, starting at 1
    layout: Layout  # what a contribution consists of
    # Maps a node id to the number by which contributions are ordered, so that sums repeat bit for
    # bit although replies arrive in any order and node ids are random.
    order: Callable[[int], int]
    grid: Grid  # reaches the nodes
    timeout: float  # the deadline in seconds
    asked: Mapping[int, list[int]] = field(default_factory=dict)  # the clients of each node
    attempts: tuple[tuple[int, int], ...] = ((1, 1),)  # number and first round of each
    # The metric in which a client without `FedAUMod` says how many examples it has.
    example_key: str = "num-examples"


@dataclass(slots=True, eq=False)
class Sum:
    """The sum over a round's accepted replies."""

    parts: Parts | None = None  # the sum part by part, if there is one
    nodes: list[int] = field(default_factory=list)  # whose contributions are in it
    clients: list[int] = field(default_factory=list)  # whose contributions are in it
    exposed: bool = False  # whether contributions have left clients under a mask, sum or none
    rejected: dict[int, str] = field(default_factory=dict)  # nodes whose replies are not, and why
    groups: list[str] = field(default_factory=list)  # of every accepted reply that named one
    metrics: list[RecordDict] = field(default_factory=list)  # that clients chose to report
    spent: dict[str, float] = field(default_factory=dict)  # of a privacy budget, by name
    released: bool = False  # it is on the disk, and no resumed training will ask for it again

    def mean_metrics(
        self, aggregate: Callable[[list[RecordDict], str], MetricRecord], weight_key: str
    ) -> MetricRecord | None:
        """Return the plain mean of reported metrics, or what the user's function makes of them.

        What is spent of a privacy budget is beside them.
        """
        for record in self.metrics:
            record.metric_records["metrics"][weight_key] = 1.0
        found = None
        try:
            found = aggregate(self.metrics, weight_key) if self.metrics else None
        except (KeyError, TypeError, ValueError) as odd:
            log.warning("Reported metrics are ignored, since replies differ in them: %s.", odd)
        return MetricRecord({**(found or {}), **self.spent}) if self.spent else found


class Summation(ABC):
    """How contributions become a sum."""

    secure = False
    """Whether replies hold nothing but masked values: no label, and the noise in their share."""

    colluding = 0
    """How many clients may know their share of the noise, if that is split."""

    scalars: tuple[str, ...] = ()
    """Parts of one value that clients add to those of their method."""

    separation = Separation()
    """How often clients are to take part at most; those that would rest are not asked."""

    norm: float | None = None
    """The largest L2 norm of a client's contribution, where contributions are clipped."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def check_noise(self, norm: float, std: float, bit_std: float | None) -> None:
        """Refuse noise on the sum that this summation cannot carry."""
        del norm, std, bit_std

    def rounds_left(self, wanted: int) -> int:
        """Return how many of the wanted rounds may still be run."""
        return wanted

    def check_rounds(self, rounds: int) -> None:
        """Refuse a training of so many rounds, if it cannot have them."""
        del rounds

    def last_release(self) -> tuple[int, Sequence[tuple[int, int]]]:
        """Return the last round whose sum is on the disk, and the attempts that led to it.

        A resumed training asks nobody up to this round.
        """
        return 0, ()

    def asked_before(self, server_round: int) -> list[int] | None:
        """Return who was asked in a round whose sum is on the disk, None if it is not."""
        del server_round
        return None

    def checkpointed(self, server_round: int) -> None:
        """Note that nobody will go back to a round before `server_round`."""
        del server_round

    def open(self, this: Round, messages: list[Message]) -> list[Message]:
        """Prepare a round; returns the train messages that are to be sent."""
        return messages

    @abstractmethod
    def close(self, this: Round, replies: list[Message]) -> Sum:
        """Add up; consumes `replies`."""

    def metrics(self) -> dict[str, float]:
        """Return what the protection of the last round came to, for the loop's metrics."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint needs."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a checkpoint."""
        del state


class PlainSum(Summation):
    """Adds up what arrives, in a fixed order, and frees each reply as it goes."""

    def close(self, this: Round, replies: list[Message]) -> Sum:
        """Add up the replies that hold a whole and finite contribution."""
        result, seen = Sum(), set[int]()
        replies.sort(key=lambda reply: _place(this, reply), reverse=True)
        while replies:
            reply = replies.pop()
            node = reply.metadata.src_node_id
            try:
                if node in seen:
                    raise Rejection("a second reply in the same round")
                parts = read_contribution(reply, this.layout, this.example_key)
                clients = read_hosted(reply, this.asked.get(node, []))
                self._check_norm(parts, len(clients))
            except Rejection as rejection:
                result.rejected[node] = str(rejection)
                continue
            seen.add(node)
            result.nodes.append(node)
            result.clients += clients
            with np.errstate(over="ignore"):
                result.parts = added_parts(result.parts, parts)
            group, metrics = read_extras(reply.content)
            result.groups += [] if group is None else [group]
            result.metrics += [RecordDict({"metrics": metrics})] if metrics else []
        if result.parts is not None and not _is_finite(result.parts):
            log.error("The sum of the contributions is not finite: the round counts nobody.")
            return Sum(rejected=result.rejected)
        return result

    def _check_norm(self, parts: Parts, clients: int) -> None:
        """Reject what no clipping made: the noise would not cover it."""
        if self.norm is None:
            return
        values = [v for part, some in parts.items() if part != WITHIN for v in some.values()]
        if (found := l2_norm(values)) > self.norm * clients * (1 + NORM_SLACK):
            raise Rejection(f"a contribution of norm {found:.6g}, above the norm {self.norm:.6g}")


def _place(this: Round, reply: Message) -> tuple[int, float, str]:
    meta = reply.metadata
    return this.order(meta.src_node_id), meta.created_at, meta.message_id


def _is_finite(parts: Parts) -> bool:
    return all(is_finite(value) for arrays in parts.values() for value in arrays.values())
