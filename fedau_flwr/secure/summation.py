"""`SecureSum`: the server's side of a secure sum, for any strategy of this package."""

from collections.abc import Mapping
from dataclasses import replace
from math import sqrt
from pathlib import Path
from typing import Any

from flwr.app import ConfigRecord, Message, MessageType, RecordDict

from .._log import log
from ..checks import check
from ..client.preparation import NOISE_TAIL, Preparation
from ..server.deadlines import DeadlineGrid
from ..server.summation import Round, Sum, Summation
from ..wire.fixed_point import FixedPoint
from ..wire.requests import HOSTED
from .arrivals import config_of, fields_of, masked_vector, read_all
from .cohort import quorum
from .digests import RECORD, REPORT, config_digest, model_digest, round_of
from .graph import Topology
from .identity import Roster
from .message import Exchange, VoidRoundError
from .message import Message as Fields
from .offences import Offences
from .payload import Payload
from .server import SecureRound


class SecureSum(Summation):
    """Adds up contributions without seeing any: ``FedAU(..., summation=SecureSum())``.

    Clients need `SecureSumMod`. Keys and shares are exchanged before the train messages go out,
    shares are revealed after the replies came in; each of these exchanges has `exchange_timeout`
    seconds, and training has the round's. A round in which too few clients are left is void: it
    counts nobody, and the model stays as after an empty round.

    Parameters
    ----------
    fixed_point : FixedPoint (default: FixedPoint())
        Range, precision and ring of the values.
    min_cohort : int (default: 3)
        A sum over fewer clients is void; the clients have a minimum of their own.
    topology : Topology (default: Topology())
        Who shares secrets with whom, and how many dropouts that allows.
    colluding : int (default: 1)
        How many clients of a neighbourhood may know or tell their share of split noise: clients
        enlarge theirs accordingly, and their own number if it is larger. A participant knows one.
    exchange_timeout : float (default: 60.0)
        Seconds for an exchange other than training.
    report_clipping : bool (default: False)
        Ask for the fraction of values beyond the range, summed up like everything else.
    seed : int | None (default: None)
        Makes the random rounding, and so the sum, repeat from run to run.
    roster : Path | str | None (default: None)
        A copy of the clients' roster, which they need not believe: the server leaves out whoever
        is not in it, where the clients would refuse the round.
    max_offences : int (default: 2)
        A node that provably broke the protocol in so many rounds is left out for the rest of the
        training; 0: never.
    """

    secure = True

    def __init__(
        self,
        *,
        fixed_point: FixedPoint | None = None,
        min_cohort: int = 3,
        topology: Topology | None = None,
        colluding: int = 1,
        exchange_timeout: float = 60.0,
        report_clipping: bool = False,
        seed: int | None = None,
        roster: Path | str | None = None,
        max_offences: int = 2,
    ) -> None:
        check("min_cohort", min_cohort, min_cohort >= 2, "at least 2")
        rule = f"at least 0 and below min_cohort, {min_cohort}"
        check("colluding", colluding, 0 <= colluding < min_cohort, rule)
        check("exchange_timeout", exchange_timeout, exchange_timeout > 0, "> 0 seconds")
        self.fixed_point = fixed_point or FixedPoint()
        self.min_cohort = min_cohort
        self.topology = topology or Topology()
        self.colluding = colluding
        self.exchange_timeout = exchange_timeout
        self.report_clipping = report_clipping
        self.seed = seed
        self.roster = None if roster is None else Roster.load(Path(roster))
        self.offences = Offences(max_offences)
        if self.roster is None:
            log.info("SecureSum without a roster: clients have to trust the server's protocol.")
        self.clipped: float | None = None
        self._secure: SecureRound | None = None
        self._payload: Payload | None = None
        self._refused: dict[int, str] = {}
        self._dropouts: dict[str, int] = {}
        # The fewest clients whose sum each one helped to unmask, the last time that they trained.
        self._survivors: list[int] = []

    def __repr__(self) -> str:
        return f"SecureSum(min_cohort={self.min_cohort})"

    def check_noise(self, norm: float, std: float, bit_std: float | None) -> None:
        """Refuse noise that is too fine or too wide for the grid even in the best case.

        A client's share of the noise is smaller than the noise on the sum, but for a sum over
        `max_cohort` clients not below ``std / sqrt(max_cohort)``. Clients check their own share.
        """
        grid = self.fixed_point
        for name, noise in (("noise", std), ("bit_noise", bit_std)):
            if noise is not None:
                grid.check_noise(f"{name} on the sum", noise)
        rule = f"more: the bit of an adaptive norm is 1/2, and the grid's step {grid.step}"
        check("bits", grid.bits, bit_std is None or grid.step <= 0.5, rule)
        least = norm + NOISE_TAIL * std / sqrt(grid.max_cohort)
        rule = f"at least {least:.6g}, the norm and {NOISE_TAIL:g} deviations of the least noise"
        check("value_range", grid.value_range, grid.value_range >= least, rule)

    def metrics(self) -> dict[str, float]:
        """Return how many of those asked did not answer in each exchange of the last round."""
        return {f"dropouts_{exchange}": count for exchange, count in self._dropouts.items()}

    def open(self, this: Round, messages: list[Message]) -> list[Message]:
        """Exchange keys and shares; returns the train messages of those who dealt shares."""
        self._secure, self._refused, self._dropouts, self.clipped = None, {}, {}, None
        messages = self._within_limits(messages)
        if not messages:
            return []
        self._payload = Payload(
            shapes=tuple(shape for _, _, shape, _ in this.layout.arrays()),
            fixed_point=self.fixed_point,
            report_clipping=self.report_clipping,
        )
        survivors = [*self._survivors, self._fewest(len(messages))]
        for message in messages:
            asked = replace(
                Preparation.from_config(config_of(message)),
                grid=self.fixed_point,
                colluding=self.colluding,
                seed=self.seed,
            )
            asked.fitted(self._payload.size, survivors).announce(message.content)
        secure = SecureRound(
            round_of(config_of(messages[0])),
            size=self._payload.size,
            dtype=self.fixed_point.dtype,
            min_cohort=self.min_cohort,
            topology=self.topology,
            model=model_digest(messages[0].content),
            config=config_digest(messages[0].content, self.report_clipping),
            roster=self.roster,
        )
        try:
            nodes = [message.metadata.dst_node_id for message in messages]
            first = self._exchange(this, dict.fromkeys(nodes, secure.keys_request()))
            self._refused |= secure.collect_keys(first)
            second = self._exchange(this, secure.shares_requests())
            self._refused |= secure.collect_shares(second)
        except VoidRoundError as void:
            log.warning("Round %d is void: %s.", this.number, void)
            self._refused |= secure.refused
            return []
        self._secure, self._survivors = secure, [self._fewest(secure.cohort)]
        requests = secure.masked_requests()
        self._dropouts[Exchange.MASKED] = len(requests)
        return self._train_messages(messages, requests)

    def close(self, this: Round, replies: list[Message]) -> Sum:
        """Add up the masked vectors and have the masks removed from the sum."""
        secure, payload = self._secure, self._payload
        self._secure = None
        result = Sum(rejected=self._refused)
        if secure is None or payload is None:
            return result
        masked = read_all(replies, result, lambda reply: masked_vector(reply, this, payload))
        hosted = {node: clients for node, (_, _, clients) in masked.items()}
        replies.clear()
        self._dropouts[Exchange.MASKED] -= len(masked)
        result.exposed = bool(masked)
        if not masked:
            # An adaptive norm was too large for so few of them, maybe: the least is safe.
            self._survivors = [self._fewest(self.min_cohort)]
        try:
            vectors = {node: (fields, vector) for node, (fields, vector, _) in masked.items()}
            result.rejected |= secure.collect_masked(vectors)
            if self.roster is not None:
                signed = self._exchange(this, secure.consistency_requests())
                self._refused |= secure.collect_consistency(signed)
            revealed = self._exchange(this, secure.unmask_requests())
            total, refused = secure.collect_unmask(revealed)
        except VoidRoundError as void:
            log.warning("Round %d is void: %s.", this.number, void)
            result.rejected |= secure.refused
            return result
        finally:
            self.offences.note(this.number, secure.offences)
        # A client that failed to unmask is in the sum all the same.
        for node, reason in refused.items():
            log.warning("Node %d did not unmask: %s.", node, reason)
        for node in secure.counted:
            result.rejected.pop(node, None)
        arrays, clipped = payload.decode(total)
        result.parts = this.layout.assembled(arrays)
        result.nodes = sorted(secure.counted, key=this.order)
        for node in result.nodes:
            result.clients += hosted[node]
        if clipped is not None:
            self.clipped = clipped / len(result.nodes)
            log.info("%.3g %% of all values were clipped.", 100 * self.clipped)
        return result

    def _fewest(self, cohort: int) -> int:
        """Return the fewest clients whose sum any client of a cohort helps to unmask."""
        if self.roster is not None:
            return max(quorum(cohort), self.min_cohort)
        return self.topology.shares_needed(self.topology.degree(cohort, self.min_cohort) + 1)

    def _within_limits(self, messages: list[Message]) -> list[Message]:
        """Leave out who cheated too often, and who comes after as many as the ring can hold."""
        within, clients, most = [], 0, self.fixed_point.max_cohort
        for message in messages:
            node = message.metadata.dst_node_id
            hosted = config_of(message).get(HOSTED)
            count = len(hosted) if isinstance(hosted, list) else 1
            if self.offences.excludes(node):
                self._refused[node] = "it broke the protocol too often"
            elif clients + count > most:
                self._refused[node] = f"more than max_cohort={most} clients could overflow the sum"
            else:
                clients += count
                within.append(message)
        return within

    def _train_messages(
        self, messages: list[Message], requests: Mapping[int, Fields]
    ) -> list[Message]:
        """Add the shares to the train messages of those who are still there.

        They are made anew: a message's time to live runs from its making, and the exchanges
        before this one have used it up.
        """
        chosen = []
        for message in messages:
            head = message.metadata
            if head.dst_node_id not in requests:
                continue
            fields: dict[str, Any] = {**requests[head.dst_node_id], REPORT: self.report_clipping}
            message.content[RECORD] = ConfigRecord(fields)
            made = Message(message.content, head.dst_node_id, head.message_type, ttl=head.ttl)
            chosen.append(made)
        return chosen

    def _exchange(self, this: Round, requests: Mapping[int, Fields]) -> dict[int, Fields]:
        seconds = self.exchange_timeout
        contents = {n: RecordDict({RECORD: ConfigRecord({**f})}) for n, f in requests.items()}
        messages = [Message(c, n, MessageType.TRAIN, ttl=seconds) for n, c in contents.items()]
        replies = DeadlineGrid(this.grid).send_and_receive(messages, timeout=seconds)
        result = Sum()
        answers = read_all(replies, result, fields_of)
        # The SuperLink itself replies for a node that is gone, under an id of its own.
        self._refused |= {n: reason for n, reason in result.rejected.items() if n in requests}
        answers = {node: fields for node, fields in answers.items() if node in requests}
        exchange = str(next(iter(requests.values()), {}).get("exchange"))
        self._dropouts[exchange] = len(requests) - len(answers)
        return answers

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint needs."""
        return self.offences.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a checkpoint."""
        self.offences.load_state_dict(state)
