"""`SecureSum`: the server's side of a secure sum, for any strategy of this package."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from math import sqrt
from typing import Any, TypeVar

from flwr.app import ConfigRecord, Message, MessageType, RecordDict

from ..client.preparation import NOISE_TAIL, Preparation
from ..server.deadlines import DeadlineGrid
from ..server.summation import Round, Sum, Summation
from ..wire.fixed_point import MIN_NOISE_STEPS, FixedPoint
from ..wire.requests import COUNTED, HOSTED, Request
from .graph import Topology
from .message import Exchange, RoundId, VoidRoundError
from .message import Message as Fields
from .mod import RECORD, REPORT, VECTOR
from .payload import Payload
from .server import SecureRound

log = logging.getLogger("flwr.fedau")

Answer = TypeVar("Answer")


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
    ) -> None:
        if min_cohort < 2:
            raise ValueError(f"min_cohort={min_cohort} must be at least 2.")
        if not 0 <= colluding < min_cohort:
            raise ValueError(
                f"colluding={colluding} must be at least 0 and below min_cohort={min_cohort}."
            )
        if not exchange_timeout > 0:
            raise ValueError(f"exchange_timeout={exchange_timeout} must be > 0 seconds.")
        self.fixed_point = fixed_point or FixedPoint()
        self.min_cohort = min_cohort
        self.topology = topology or Topology()
        self.colluding = colluding
        self.exchange_timeout = exchange_timeout
        self.report_clipping = report_clipping
        self.seed = seed
        self.clipped: float | None = None
        self._secure: SecureRound | None = None
        self._payload: Payload | None = None
        # The fewest clients whose sum each one helped to unmask, the last time that they trained.
        self._survivors: list[int] = []
        self._refused: dict[int, str] = {}
        self._dropouts: dict[str, int] = {}

    def __repr__(self) -> str:
        return f"SecureSum(min_cohort={self.min_cohort})"

    def check_noise(self, norm: float, std: float, bit_std: float | None) -> None:
        """Refuse noise that is too fine or too wide for the grid even in the best case.

        A client's share of the noise is smaller than the noise on the sum, but for a sum over
        `max_cohort` clients not below ``std / sqrt(max_cohort)``. Clients check their own share.
        """
        grid = self.fixed_point
        for name, noise in (("noise", std), ("bit_noise", bit_std)):
            if noise is not None and noise < MIN_NOISE_STEPS * grid.step:
                raise ValueError(
                    f"{name} of {noise:.6g} on the sum must be at least four steps of the grid "
                    f"({MIN_NOISE_STEPS * grid.step}); use more bits."
                )
        if bit_std is not None and grid.step > 0.5:
            raise ValueError(
                f"bits={grid.bits} must be more for value_range={grid.value_range}: the bit of an "
                f"adaptive norm is 1/2, and the grid's step {grid.step}."
            )
        needed = norm + NOISE_TAIL * std / sqrt(grid.max_cohort)
        if needed > grid.value_range:
            raise ValueError(
                f"value_range={grid.value_range} must be at least {needed:.6g}, the norm and "
                f"{NOISE_TAIL:g} standard deviations of the least share of its noise."
            )

    def metrics(self) -> dict[str, float]:
        """Return how many of those asked did not answer in each exchange of the last round."""
        return {f"dropouts_{exchange}": count for exchange, count in self._dropouts.items()}

    def open(self, this: Round, messages: list[Message]) -> list[Message]:
        """Exchange keys and shares; returns the train messages of those who dealt shares."""
        self._secure, self._refused, self._dropouts, self.clipped = None, {}, {}, None
        if not messages:
            return []
        self._check_cohort(messages)
        self._payload = Payload(
            shapes=tuple(shape for _, _, shape, _ in this.layout.arrays()),
            fixed_point=self.fixed_point,
            report_clipping=self.report_clipping,
        )
        survivors = [*self._survivors, self.topology.shares_needed(len(messages))]
        for message in messages:
            asked = replace(
                Preparation.from_config(_config(message)),
                grid=self.fixed_point,
                colluding=self.colluding,
                seed=self.seed,
            )
            asked.fitted(self._payload.size, survivors).announce(message.content)
        secure = SecureRound(
            _round_id(messages[0]),
            size=self._payload.size,
            dtype=self.fixed_point.dtype,
            min_cohort=self.min_cohort,
            topology=self.topology,
        )
        try:
            nodes = [message.metadata.dst_node_id for message in messages]
            first = self._exchange(this, dict.fromkeys(nodes, secure.keys_request()))
            self._refused |= secure.collect_keys(first)
            second = self._exchange(this, secure.shares_requests())
            self._refused |= secure.collect_shares(second)
        except VoidRoundError as void:
            log.warning("Round %d is void: %s.", this.number, void)
            return []
        self._secure, requests = secure, secure.masked_requests()
        self._dropouts[Exchange.MASKED] = len(requests)
        return self._train_messages(messages, requests)

    def close(self, this: Round, replies: list[Message]) -> Sum:
        """Add up the masked vectors and have the masks removed from the sum."""
        secure, payload = self._secure, self._payload
        self._secure = None
        result = Sum(rejected=self._refused)
        if secure is None or payload is None:
            return result
        masked = self._read(replies, result, _vector)
        hosted = {node: fields.pop("hosted") for node, (fields, _) in masked.items()}
        replies.clear()
        self._dropouts[Exchange.MASKED] -= len(masked)
        result.exposed = bool(masked)
        if not masked:
            # An adaptive norm was too large for so few of them, maybe: the least is safe.
            self._survivors = [self.topology.shares_needed(self.min_cohort)]
        try:
            result.rejected |= secure.collect_masked(masked)
            revealed = self._exchange(this, secure.unmask_requests())
            total, refused = secure.collect_unmask(revealed)
        except VoidRoundError as void:
            log.warning("Round %d is void: %s.", this.number, void)
            return result
        # A client that failed to unmask is in the sum all the same.
        for node, reason in refused.items():
            log.warning("Node %d did not unmask: %s.", node, reason)
        for node in secure.counted:
            result.rejected.pop(node, None)
        arrays, clipped = payload.decode(total)
        result.parts = this.layout.assembled(arrays)
        result.nodes = sorted(secure.counted, key=this.order)
        for node in result.nodes:
            asked = this.asked[node]
            result.clients += [c for c in asked if c in hosted[node]] if hosted[node] else asked
        if clipped is not None:
            self.clipped = clipped / len(result.nodes)
            log.info("%.3g %% of all values were clipped.", 100 * self.clipped)
        return result

    def _check_cohort(self, messages: list[Message]) -> None:
        hosted = [_config(message).get(HOSTED) for message in messages]
        clients = sum(len(some) if isinstance(some, list) else 1 for some in hosted)
        if clients > self.fixed_point.max_cohort:
            raise ValueError(
                f"max_cohort={self.fixed_point.max_cohort} is below the {clients} clients of this "
                "round; the sum could overflow."
            )

    def _train_messages(
        self, messages: list[Message], requests: Mapping[int, Fields]
    ) -> list[Message]:
        """Add the shares to the train messages of those who are still there.

        They are made anew: a message's time to live runs from its making, and the exchanges
        before this one have used it up.
        """
        hoods = [1 + len(fields["peers"]) for fields in requests.values()]  # type: ignore[arg-type]
        self._survivors = [self.topology.shares_needed(clients) for clients in hoods]
        chosen = []
        for message in messages:
            head = message.metadata
            if head.dst_node_id not in requests:
                continue
            fields: dict[str, Any] = {**requests[head.dst_node_id], REPORT: self.report_clipping}
            message.content[RECORD] = ConfigRecord(fields)
            chosen.append(
                Message(message.content, head.dst_node_id, head.message_type, ttl=head.ttl)
            )
        return chosen

    def _exchange(self, this: Round, requests: Mapping[int, Fields]) -> dict[int, Fields]:
        seconds = self.exchange_timeout
        contents = {n: RecordDict({RECORD: ConfigRecord({**f})}) for n, f in requests.items()}
        messages = [Message(c, n, MessageType.TRAIN, ttl=seconds) for n, c in contents.items()]
        replies = DeadlineGrid(this.grid).send_and_receive(messages, timeout=seconds)
        result = Sum()
        answers = self._read(replies, result, _fields)
        # The SuperLink itself replies for a node that is gone, under an id of its own.
        self._refused |= {n: reason for n, reason in result.rejected.items() if n in requests}
        answers = {node: fields for node, fields in answers.items() if node in requests}
        exchange = str(next(iter(requests.values()), {}).get("exchange"))
        self._dropouts[exchange] = len(requests) - len(answers)
        return answers

    def _read(
        self, replies: Iterable[Message], result: Sum, read: Callable[[Message], Answer]
    ) -> dict[int, Answer]:
        answers: dict[int, Answer] = {}
        for reply in replies:
            node = reply.metadata.src_node_id
            if reply.has_error():
                result.rejected[node] = reply.error.reason or "an error without a reason"
                continue
            try:
                answers[node] = read(reply)
            except Exception:  # whatever a client put into its bytes is the client's fault
                wrong = "not an answer of a secure sum; its client needs SecureSumMod"
                result.rejected[node] = wrong
        return answers


def _fields(reply: Message) -> Fields:
    fields: Any = reply.content.config_records[RECORD]
    return {**fields}


def _vector(reply: Message) -> tuple[dict[str, Any], Any]:
    fields: dict[str, Any] = {**_fields(reply)}
    hosted = fields.get("hosted")
    if not isinstance(hosted, list) or len(set(hosted)) != len(hosted):
        raise ValueError("'hosted' is no list of clients")
    return fields, reply.content.array_records[VECTOR]["masked"].numpy()


def _config(message: Message) -> ConfigRecord:
    """Return the config of a train message, which is the one record of this kind."""
    return next(iter(message.content.config_records.values()))


def _round_id(message: Message) -> RoundId:
    # Which round a client was last counted in matters to itself only, and is a list for a host.
    common = {key: value for key, value in _config(message).items() if key != COUNTED}
    request = Request.from_config(common)
    return RoundId(request.training, request.attempt, request.round)
