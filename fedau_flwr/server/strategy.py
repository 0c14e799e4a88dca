"""`FedAU`: the strategy that only sums."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from flwr.app import (
    DEFAULT_TTL,
    ArrayRecord,
    ConfigRecord,
    Message,
    MessageType,
    MetricRecord,
    RecordDict,
)
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg, Result

from ..client.contribution import is_averaged, wire_dtype
from ..client.preparation import WITHIN, Preparation
from ..client.store import Arrays
from ..privacy.gaussian import GaussianPrivacy
from ..privacy.noise import add_noise
from ..wire.records import decode_all, encode
from ..wire.requests import COUNTED, HOSTED
from .deadlines import punctual
from .groups import Groups
from .ledger import Ledger
from .report import RoundReport
from .summation import PlainSum, Round, Sum, Summation

log = logging.getLogger("flwr.fedau")


class FedAU(FedAvg):
    r"""Adds up weighted updates: :math:`x \leftarrow x + \frac{\eta}{N} \sum_n \omega_n \Delta_n`.

    The clients weight their updates before they send them (`FedAUMod`, `FedAUMixin`), so the
    server needs the sum alone. It also tells every client which of its rounds were counted,
    without which lost replies would bias the weights.

    Parameters
    ----------
    num_clients : int
        `N`, the population of the objective: given, never guessed from who is connected.
    server_learning_rate : float (default: 1.0)
        `η`.
    divisor : str (default: "clients")
        "clients" divides the sum by `N`, "participants" by the number of counted clients.
    groups : Mapping[str, int] | None (default: None)
        Sizes of groups of clients that share a history; see `fedau_flwr.server.groups`.
    group_cutoff : int | None (default: 50)
        The cutoff of the groups' histories.
    numpy_clients : bool (default: False)
        Speak the records of `NumPyClient`s.
    round_timeout : float | None (default: None)
        Deadline of a round in seconds, which is also its messages' time to live: a straggler
        is an absentee, and nothing stale queues up for it. By default it is the `timeout`
        that `start` is given.
    client_numbers : Mapping[int, int] | None (default: None)
        Client number of each node id, where known. Clients are then counted and summed by
        number, so that a run repeats bit for bit although node ids do not.
    hosts : Callable[[int], list[int]] | None (default: None)
        Where nodes host several clients each: the clients that a node is asked for in the
        running round, see `fedau_flwr.client.host`.
    summation : Summation | None (default: None)
        How contributions become a sum; plain addition by default.
    privacy : GaussianPrivacy | None (default: None)
        Clip contributions and put noise on their sum: the server's own, or under a secure
        sum the clients'.
    **options
        Options of Flower's `FedAvg`. Here `min_*_nodes` default to 0, since a thin round is
        normal, and `fraction_evaluate` to 0.0, since replies to it carry example counts.
    """

    def __init__(
        self,
        num_clients: int,
        *,
        server_learning_rate: float = 1.0,
        divisor: str = "clients",
        groups: Mapping[str, int] | None = None,
        group_cutoff: int | None = 50,
        numpy_clients: bool = False,
        round_timeout: float | None = None,
        client_numbers: Mapping[int, int] | None = None,
        hosts: Callable[[int], list[int]] | None = None,
        summation: Summation | None = None,
        privacy: GaussianPrivacy | None = None,
        **options: Any,
    ) -> None:
        if not isinstance(num_clients, int) or num_clients < 1:
            raise ValueError(f"num_clients is {num_clients!r}, but must be an integer >= 1.")
        if not server_learning_rate > 0:
            raise ValueError(f"server_learning_rate is {server_learning_rate!r}, but must be > 0.")
        if divisor not in {"clients", "participants"}:
            raise ValueError(f"divisor is {divisor!r}, but must be 'clients' or 'participants'.")
        if round_timeout is not None and not round_timeout > 0:
            raise ValueError(f"round_timeout is {round_timeout!r}, but must be > 0 seconds.")
        fraction_evaluate = options.pop("fraction_evaluate", 0.0)
        if numpy_clients and fraction_evaluate:
            raise ValueError("fraction_evaluate must be 0 with numpy_clients=True.")
        minimums = dict.fromkeys(
            ("min_train_nodes", "min_evaluate_nodes", "min_available_nodes"), 0
        )
        super().__init__(**{**minimums, **options})
        # Not handed to the constructor, which would warn about what is our default.
        self.fraction_evaluate = fraction_evaluate
        self.num_clients = num_clients
        self.server_learning_rate = server_learning_rate
        self.divisor = divisor
        self.groups = Groups(groups or {}, group_cutoff)
        self.numpy_clients = numpy_clients
        self.round_timeout = round_timeout
        self.client_numbers: Mapping[int, int] = client_numbers or {}
        self.hosts = hosts
        self.summation = summation or PlainSum()
        if groups and self.summation.secure:
            raise ValueError(
                f"groups is {dict(groups)!r}, but must be empty with "
                f"{type(self.summation).__name__}: a group's label would leave the client in clear."
            )
        if privacy is not None and privacy.adaptive and numpy_clients:
            raise ValueError("privacy must have a fixed norm with numpy_clients=True.")
        if privacy is not None:
            self.summation.check_privacy(privacy)
        self.privacy = privacy
        self.ledger = Ledger()
        self.last_round: RoundReport | None = None
        self._timeout = float(DEFAULT_TTL)
        self._offset = 0
        self._round: Round | None = None
        self._names: list[str] = []
        self._asked: dict[int, list[int]] = {}
        self._group_weights: dict[str, float] = {}
        self._opened_at = 0.0

    memory = False
    """Whether clients contribute the change against what they sent before."""

    def summary(self) -> None:
        """Log summary configuration of the strategy."""
        log.info("\t├──> FedAU settings:")
        log.info("\t│\t├── Clients: %d | divisor: %s", self.num_clients, self.divisor)
        log.info("\t│\t├── Server learning rate: %s", self.server_learning_rate)
        log.info("\t│\t├── Summation: %s", type(self.summation).__name__)
        log.info(
            "\t│\t└── Training: %s (attempt %d)", self.ledger.training, self.ledger.attempts[-1][0]
        )
        super().summary()

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = 3600,
        *args: Any,
        **kwargs: Any,
    ) -> Result:
        """Run `num_rounds` rounds; after `load_state_dict` they follow those of the checkpoint."""
        self._timeout = timeout
        self._offset = self.ledger.round
        if self.privacy is not None and (left := self.privacy.rounds_left(num_rounds)) < num_rounds:
            log.warning("The privacy budget has room for %d of %d rounds.", left, num_rounds)
            num_rounds = left
        try:
            return super().start(
                punctual(grid), initial_arrays, num_rounds, timeout, *args, **kwargs
            )
        finally:
            self._offset = 0

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        """Ask the nodes that are there, each with the last round in which it was counted."""
        self.ledger.open(server_round + self._offset)
        self._opened_at = time.monotonic()
        self._names = list(arrays)
        model = decode_all(arrays)
        if self.numpy_clients:
            arrays, model = _numbered(arrays), _numbered(model)
        deadline = self.round_timeout or self._timeout
        self._asked = {}
        self._round = Round(
            number=self.ledger.round,
            model=self._summed(model),
            order=lambda node: self.client_numbers.get(node, node),
            grid=grid,
            timeout=deadline,
            asked=self._asked,
            example_key=self.weighted_by_key,
        )
        if self.privacy is not None and not self.privacy.allows_round():
            log.warning("The privacy budget is spent: nobody is asked in this round.")
            return self.summation.open(self._round, [])
        self._group_weights = self.groups.weights()
        nodes = self._present(grid, self.fraction_train, self.min_train_nodes)
        self._asked.update((node, here) for node in nodes if (here := self._clients(node)))
        messages = [
            Message(
                self._content(arrays, {**config, **self._participation(self._asked[node])}),
                dst_node_id=node,
                message_type=MessageType.TRAIN,
                ttl=deadline,
            )
            for node in self._asked
        ]
        return self.summation.open(self._round, messages)

    def _clients(self, node: int) -> list[int]:
        """Return the clients that a node stands for in this round."""
        return self.hosts(node) if self.hosts else [self.client_numbers.get(node, node)]

    def _participation(self, clients: list[int]) -> dict[str, Any]:
        """Return what this round's message says to the clients of one node."""
        requests = [
            self.ledger.request(client, memory=self.memory, groups=self._group_weights)
            for client in clients
        ]
        config: dict[str, Any] = {**requests[0].to_config()}
        if self.privacy is not None:
            config |= Preparation(
                norm=self.privacy.norm,
                noise_std=self.privacy.sum_std,
                bit_std=self.privacy.bit_std,
            ).to_config()
        if self.hosts:
            config[HOSTED] = clients
            config[COUNTED] = [-1 if r.counted is None else r.counted for r in requests]
        return config

    def _content(self, arrays: ArrayRecord, config: dict[str, Any]) -> RecordDict:
        if self.numpy_clients:
            return RecordDict({"fitins.parameters": arrays, "fitins.config": ConfigRecord(config)})
        return RecordDict(
            {self.arrayrecord_key: arrays, self.configrecord_key: ConfigRecord(config)}
        )

    def _present(self, grid: Grid, fraction: float, least: int) -> list[int]:
        """Return the nodes to ask, from one snapshot of the grid."""
        if fraction == 0.0:
            return []
        while len(nodes := sorted(grid.get_node_ids())) < self.min_available_nodes:
            log.info(
                "Waiting for nodes to connect: %d connected (minimum required: %d).",
                len(nodes),
                self.min_available_nodes,
            )
            time.sleep(1)
        nodes.sort(key=lambda node: self.client_numbers.get(node, node))
        wanted = min(max(int(len(nodes) * fraction), least), len(nodes))
        return nodes if wanted == len(nodes) else random.sample(nodes, wanted)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Add up the contributions that arrived and let the rule make its step."""
        this = self._round
        if this is None or this.number != server_round + self._offset:
            raise ValueError(
                f"aggregate_train was called for round {server_round + self._offset}, but "
                "configure_train was not."
            )
        replies = replies if isinstance(replies, list) else list(replies)
        result = self.summation.close(this, self._expected(replies))
        if not _is_finite(result.total):
            log.error("The sum of the contributions is not finite: the round counts nobody.")
            result = Sum(rejected=result.rejected)
        bits = self._private(result)
        counted = [
            client
            for node in result.nodes
            for client in {*self._asked[node]}.intersection(
                result.hosted.get(node, self._asked[node])
            )
        ]
        self.ledger.count(counted)
        if self.groups:
            self.groups.advance(group for group in result.groups if group in self.groups)
        self._report(this, result, counted)
        if self.privacy is not None and result.total is not None:
            self.privacy.released(bits, len(counted))
        model = {name: value for name, value in this.model.items() if name != WITHIN}
        model = self.step(model, result.total, len(counted))
        self._round = None
        return encode(dict(zip(self._names, model.values(), strict=True))), self._metrics(result)

    def _summed(self, model: Arrays) -> Arrays:
        """Return what is summed up: the model's arrays, and the bit for an adaptive norm."""
        if self.privacy is None or self.privacy.bit_std is None:
            return model
        return {**model, WITHIN: np.zeros((), np.float32)}

    def _private(self, result: Sum) -> float | None:
        """Put noise on a plain sum, and take the sum of the bits out of it."""
        if self.privacy is None or result.total is None:
            return None
        stds = {WITHIN: self.privacy.bit_std or 0.0}
        if not self.summation.secure:
            rng = np.random.default_rng()
            for name, value in result.total.items():
                std = stds.get(name, self.privacy.sum_std)
                (result.total[name],) = add_noise([value], std, rng)
        bits = result.total.pop(WITHIN, None)
        return None if bits is None else float(bits)

    def _expected(self, replies: list[Message]) -> list[Message]:
        """Drop, in place, replies of nodes that were not asked in this round."""
        expected = []
        for reply in replies:
            if reply.metadata.src_node_id in self._asked:
                expected.append(reply)
            elif reply.has_error():  # the SuperLink's own, for a node that does not answer any more
                log.debug("A reply is missing: %s", reply.error.reason)
            else:
                log.warning(
                    "Rejected a reply of node %d: it was not asked in this round.",
                    reply.metadata.src_node_id,
                )
        replies[:] = expected
        return replies

    def step(self, model: Arrays, total: Arrays | None, participants: int) -> Arrays:
        """Return the next model from the sum of the contributions (None if nobody was counted).

        The arrays of `model` may be read-only.
        """
        if total is None or participants == 0:
            return model
        divisor = self.num_clients if self.divisor == "clients" else participants
        return moved(model, total, self.server_learning_rate / divisor)

    def _report(self, this: Round, result: Sum, counted: list[int]) -> None:
        report = RoundReport(
            round=this.number,
            asked=len(self._asked),
            counted=len(counted),
            rejected=len(result.rejected),
            absent=len(self._asked.keys() - result.nodes - result.rejected.keys()),
            seconds=time.monotonic() - self._opened_at,
            clients=tuple(counted),
        )
        log.info(
            "Round %d: %d counted, %d rejected, %d without reply, %.1f s",
            report.round,
            report.counted,
            report.rejected,
            report.absent,
            report.seconds,
        )
        self.last_round = report
        for node, reason in result.rejected.items():
            # The words may be the client's own, of any length and with lines of their own.
            said = " ".join(reason.split())[:500].rstrip(".")
            log.warning("Rejected the reply of node %d: %s.", node, said)

    def _metrics(self, result: Sum) -> MetricRecord | None:
        """Return the plain mean of reported metrics, or what the user's function makes of them."""
        if not result.metrics:
            return None
        for record in result.metrics:
            record.metric_records["metrics"][self.weighted_by_key] = 1.0
        try:
            return self.train_metrics_aggr_fn(result.metrics, self.weighted_by_key)
        except (KeyError, TypeError, ValueError) as odd:
            log.warning("Reported metrics are ignored, since replies differ in them: %s.", odd)
            return None

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        """Configure federated evaluation, from one snapshot of the nodes."""
        nodes = self._present(grid, self.fraction_evaluate, self.min_evaluate_nodes)
        content = self._content(arrays, {**config, "server-round": server_round + self._offset})
        ttl = self.round_timeout or self._timeout
        return [Message(content, node, MessageType.EVALUATE, ttl=ttl) for node in nodes]

    def checkpointed(self, server_round: int) -> None:
        """Note that a checkpoint of `server_round` is safe, so that clients drop older state.

        A loop that keeps checkpoints calls this with 0 before its first round: clients then
        keep what they need to follow a resumed server back. A loop that may resume from several
        of them names the oldest, also after `load_state_dict`.
        """
        self.ledger.safe = server_round

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint needs beside the model to go on as if it had not stopped."""
        state = {"ledger": self.ledger.state_dict(), "groups": self.groups.state_dict()}
        return state | ({"privacy": self.privacy.state_dict()} if self.privacy else {})

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a checkpoint, as a new attempt that starts with the round after it."""
        self.ledger.load_state_dict(state["ledger"])
        self.groups.load_state_dict(state["groups"])
        if self.privacy is not None:
            self.privacy.load_state_dict(state["privacy"])


def _is_finite(total: Arrays | None) -> bool:
    return total is None or all(np.isfinite(value).all() for value in total.values())


def moved(model: Arrays, direction: Arrays, rate: float) -> Arrays:
    """Return `model + rate · direction`, every array in its own type."""
    result = {}
    for name, value in model.items():
        if not is_averaged(value.dtype):
            result[name] = value
            continue
        wide = wire_dtype(value.dtype)
        step = direction[name].astype(wide, copy=False) * wide.type(rate)
        result[name] = (value.astype(wide, copy=False) + step).astype(value.dtype, copy=False)
    return result


def _numbered(record: Any) -> Any:
    """Return a record or dict with its entries named by position, as a `NumPyClient` has them."""
    return type(record)({str(number): value for number, value in enumerate(record.values())})
