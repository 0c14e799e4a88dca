"""`SumStrategy`: the server half that all methods share, which asks, sums, counts and confirms."""

from __future__ import annotations

import inspect
import random
import time
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

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

from .._log import log
from ..arrays import Arrays, moved
from ..client.transform import Transform
from ..privacy import GaussianPrivacy, MatrixPrivacy
from ..wire.dialects import NUMPY_REQUEST, numbered
from ..wire.parts import Layout, Parts
from ..wire.records import decode_all, encode
from ..wire.requests import hosted_config
from .deadlines import with_deadline
from .groups import Groups
from .ledger import Ledger, check_population
from .replies import expected
from .report import RoundReport
from .roster import Roster
from .summation import PlainSum, Round, Summation


class SumStrategy(FedAvg):
    """A method whose server needs nothing but a sum over its participants.

    A method says which `transform` its clients apply to their updates and overrides `step`, the
    rule that makes the next model from the sums of the parts that they send. Everything else is
    here: who is asked, what is summed and how, who was counted, and that every client is told
    which of its rounds were, without which lost replies would bias the weights. Both halves of a
    method of your own, which then works with secure sums, privacy and checkpoints as well::

        class Signs(Transform):  # clients: FedAUMod(transforms=[Signs])
            def contribute(self, update, turn):
                return {"update": {k: turn.weight * np.sign(v) for k, v in update.items()}}

        class SignSum(SumStrategy):  # server: SignSum(num_clients=100)
            transform = Signs()
            def step(self, model, sums, participants):
                return self.moved(model, sums["update"]) if sums else model

    Parameters
    ----------
    num_clients : int
        `N`, the population of the objective: given, never guessed from who is connected.
    server_learning_rate : float (default: 1.0)
        `η`.
    summation : Summation | None (default: None)
        How contributions become a sum; plain addition by default.
    privacy : GaussianPrivacy | MatrixPrivacy | None (default: None)
        Clip contributions and put noise on their sum; under a secure sum it is the clients'.
    roster : Roster | None (default: None)
        Which clients a node stands for, where that is known: ``grid.roster`` of an
        `AvailabilityGrid` or a `HostGrid`.
    numpy_clients : bool (default: False)
        Speak the records of `NumPyClient`s.
    round_timeout : float | None (default: None)
        Deadline of a round in seconds, which is also its messages' time to live: a straggler
        is an absentee, and nothing stale queues up for it. By default it is the `timeout`
        that `start` is given.
    **options
        Options of Flower's `FedAvg`. Here `min_*_nodes` default to 0, since a thin round is
        normal, and `fraction_evaluate` to 0.0, since replies to it carry example counts.
    """

    transform: Transform
    """What clients do with their updates; its parts are what is summed."""

    def __init__(
        self,
        num_clients: int,
        *,
        server_learning_rate: float = 1.0,
        summation: Summation | None = None,
        privacy: GaussianPrivacy | MatrixPrivacy | None = None,
        roster: Roster | None = None,
        numpy_clients: bool = False,
        round_timeout: float | None = None,
        **options: Any,
    ) -> None:
        check_population(num_clients)
        if not server_learning_rate > 0:
            raise ValueError(f"server_learning_rate is {server_learning_rate!r}, but must be > 0.")
        if round_timeout is not None and not round_timeout > 0:
            raise ValueError(f"round_timeout is {round_timeout!r}, but must be > 0 seconds.")
        fraction_evaluate = options.pop("fraction_evaluate", 0.0)
        if numpy_clients and fraction_evaluate:
            raise ValueError("fraction_evaluate must be 0 with numpy_clients=True.")
        for name in options.keys() - inspect.signature(FedAvg).parameters.keys():
            raise ValueError(f"{name} is given, but {type(self).__name__} has no {name}.")
        minimums = ("min_train_nodes", "min_evaluate_nodes", "min_available_nodes")
        super().__init__(**{**dict.fromkeys(minimums, 0), **options})
        # Not handed to the constructor, which would warn about what is our default.
        self.fraction_evaluate = fraction_evaluate
        self.num_clients = num_clients
        self.server_learning_rate = server_learning_rate
        self.round_timeout = round_timeout
        self.roster = roster or Roster()
        self.numpy_clients = numpy_clients
        if numpy_clients:
            self.arrayrecord_key, self.configrecord_key = NUMPY_REQUEST
        self.summation = summation or PlainSum()
        if privacy is not None:
            self.summation = privacy.around(self.summation)
        self.groups = Groups({})
        self.ledger = Ledger()
        self.last_round: RoundReport | None = None
        self._timeout, self._offset = float(DEFAULT_TTL), 0
        self._round: Round | None = None
        self._opened_at, self._names = 0.0, list[str]()

    @abstractmethod
    def step(self, model: Arrays, sums: Parts | None, participants: int) -> Arrays:
        """Return the next model.

        Parameters
        ----------
        model : Arrays
            The model of this round; its arrays may be read-only.
        sums : Parts | None
            The sum over the counted participants of every part that the transform makes, None if
            nobody was counted.
        participants : int
            The number of clients in the sums.
        """

    def moved(self, model: Arrays, total: Arrays, divisor: int | None = None) -> Arrays:
        """Return `model + η · total / divisor`, where the divisor is `N` unless it is given."""
        return moved(model, total, self.server_learning_rate / (divisor or self.num_clients))

    def summary(self) -> None:
        """Log summary configuration of the strategy."""
        log.info("\t├──> %s settings:", type(self).__name__)
        settings = self.settings()
        for number, (name, value) in enumerate(settings.items(), 1):
            log.info("\t│\t%s── %s: %s", "├" if number < len(settings) else "└", name, value)
        super().summary()

    def settings(self) -> dict[str, object]:
        """Return what `summary` says about the method."""
        return {
            "Clients": self.num_clients,
            "Server learning rate": self.server_learning_rate,
            "Summation": self.summation,
            "Training": f"{self.ledger.training} (attempt {self.ledger.attempts[-1][0]})",
        }

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
        self._timeout, self._offset = timeout, self.ledger.round
        self.summation.check_rounds(self._offset + num_rounds)
        if (left := self.summation.rounds_left(num_rounds)) < num_rounds:
            log.warning("The privacy budget has room for %d of %d rounds.", left, num_rounds)
        try:
            return super().start(
                with_deadline(grid), initial_arrays, left, timeout, *args, **kwargs
            )
        finally:
            self._offset = 0

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        """Ask the nodes that are there, each with the last round in which it was counted."""
        if not isinstance(transform := getattr(self, "transform", None), Transform):
            raise ValueError(f"transform is {transform!r}, but must be an instance of a Transform.")
        self.ledger.open(server_round + self._offset)
        self._opened_at, self._names = time.monotonic(), list(arrays)
        arrays = ArrayRecord(numbered(arrays.values())) if self.numpy_clients else arrays
        nodes: list[int] = []
        if (before := self.summation.asked_before(self.ledger.round)) is not None:
            self.ledger.replay(before)
        elif self.summation.rounds_left(1):
            nodes = self._present(grid, self.fraction_train, self.min_train_nodes)
        else:
            log.warning("The privacy budget is spent: nobody is asked in this round.")
        here, awake = self.roster.clients, self.summation.separation.awake
        asked = {node: some for node in nodes if (some := awake(here(node), self.ledger))}
        scalars = (*self.transform.scalars, *self.summation.scalars)
        self._round = Round(
            number=self.ledger.round,
            attempts=tuple(self.ledger.attempts),
            layout=Layout(decode_all(arrays), self.transform.parts, scalars),
            order=self.roster.number,
            grid=grid,
            timeout=self._deadline,
            asked=asked,
            example_key=self.weighted_by_key,
        )
        messages = [
            self._message(node, MessageType.TRAIN, arrays, {**config, **self._participation(here)})
            for node, here in asked.items()
        ]
        return self.summation.open(self._round, messages)

    def _message(self, node: int, kind: str, arrays: ArrayRecord, config: Any) -> Message:
        content = RecordDict({self.arrayrecord_key: arrays})
        content[self.configrecord_key] = ConfigRecord(config)
        return Message(content, node, kind, ttl=self._deadline)

    @property
    def _deadline(self) -> float:
        return self.round_timeout or self._timeout

    def _participation(self, clients: list[int]) -> dict[str, Any]:
        """Return what this round's message says to the clients of one node."""
        transform, weights = self.transform.to_text(), self.groups.weights()
        requests = [self.ledger.request(n, transform=transform, groups=weights) for n in clients]
        fields = hosted_config(requests) if self.roster.hosting else requests[0].to_config()
        return fields | self.summation.separation.to_config()

    def _present(self, grid: Grid, fraction: float, least: int) -> list[int]:
        """Return the nodes to ask, from one snapshot of the grid."""
        if fraction == 0.0:
            return []
        while len(nodes := sorted(grid.get_node_ids())) < self.min_available_nodes:
            sentence = "Waiting for nodes to connect: %d connected (minimum required: %d)."
            log.info(sentence, len(nodes), self.min_available_nodes)
            time.sleep(1)
        nodes.sort(key=self.roster.number)
        wanted = min(max(int(len(nodes) * fraction), least), len(nodes))
        return nodes if wanted == len(nodes) else random.sample(nodes, wanted)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Add up the contributions that arrived and let the rule make its step."""
        this, number = self._round, server_round + self._offset
        if this is None or this.number != number:
            raise ValueError(
                f"aggregate_train was called for round {number}, but configure_train was not."
            )
        self._round = None
        result = self.summation.close(this, expected(replies, this.asked))
        self.ledger.count(result.clients, released=result.released)
        self.groups.advance(group for group in result.groups if group in self.groups)
        self.last_round = RoundReport.of(this, result, time.monotonic() - self._opened_at)
        self.last_round.log(result.rejected)
        model = self.step(this.layout.model, result.parts, len(result.clients))
        metrics = result.mean_metrics(self.train_metrics_aggr_fn, self.weighted_by_key)
        return encode(dict(zip(self._names, model.values(), strict=True))), metrics

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        """Configure federated evaluation, from one snapshot of the nodes."""
        nodes = self._present(grid, self.fraction_evaluate, self.min_evaluate_nodes)
        fields = {**config, "server-round": server_round + self._offset}
        return [self._message(node, MessageType.EVALUATE, arrays, fields) for node in nodes]

    def checkpointed(self, server_round: int) -> None:
        """Note that a checkpoint of `server_round` is safe, so that clients drop older state.

        A loop that keeps checkpoints calls this with 0 before its first round: clients then
        keep what they need to follow a resumed server back. A loop that may resume from several
        of them names the oldest, also after `load_state_dict`.
        """
        self.ledger.safe = server_round
        self.summation.checkpointed(server_round)

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint needs beside the model to go on as if it had not stopped."""
        return {
            "ledger": self.ledger.state_dict(),
            "groups": self.groups.state_dict(),
            "summation": self.summation.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a checkpoint, as a new attempt that starts with the round after it."""
        self.ledger.load_state_dict(state["ledger"])
        self.groups.load_state_dict(state["groups"])
        # A checkpoint of version 0.1 has what is private about a sum by another name.
        self.summation.load_state_dict(state.get("summation", state.get("privacy", {})))
        self.ledger.resume_after(*self.summation.last_release())
