"""`SumStrategy`: the server half that all methods share, which asks, sums, counts and confirms."""

import time
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result

from .. import _flower
from .._log import log
from ..arrays import Arrays, moved
from ..checks import check_count
from ..client.transform import Transform
from ..privacy import GaussianPrivacy, MatrixPrivacy
from ..statistics import Statistics, named, stepped
from ..wire.parts import Layout, Parts
from ..wire.records import decode_all, encode
from .asking import Asking
from .deadlines import with_deadline
from .delivery import Deliveries, Delivering
from .evaluation import EvaluatingStrategy
from .groups import Groups
from .ledger import Ledger
from .numpy_clients import are_numpy_clients, ask_numpy_clients
from .outcome import Outcome
from .replies import expected
from .report import RoundReport
from .roster import Roster
from .settings import check_model, check_settings
from .summation import PlainSum, Round, Summation
from .wrappers import refuse_wrappers


class SumStrategy(Delivering, EvaluatingStrategy):
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
        Speak the records of `NumPyClient`s from the first message on. Otherwise the answers to
        it tell, at the cost of asking twice in the first round.
    unweighted : Iterable[str] (default: ())
        Names or patterns of arrays that are averaged over the participants with weight 1, as the
        statistics of normalisation layers always are; see `fedau_flwr.statistics`.
    round_timeout : float | None (default: None)
        Deadline of a round in seconds, which is also its messages' time to live: a straggler
        is an absentee, and nothing stale queues up for it. By default it is the `timeout`
        that `start` is given.
    **options
        Options of Flower's `FedAvg`. Here `min_*_nodes` default to 0, since a thin round is
        normal, and `fraction_evaluate` to 0.0, since replies to it carry example counts. The
        first round alone waits for `min_available_nodes`, or for one.
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
        unweighted: Iterable[str] = (),
        round_timeout: float | None = None,
        **options: Any,
    ) -> None:
        self.num_clients = check_count("num_clients", num_clients)
        positive = {"server_learning_rate": server_learning_rate, "round_timeout": round_timeout}
        kinds = {"summation": summation, "privacy": privacy, "roster": roster}
        check_settings(type(self), positive, kinds, options)
        _flower.note_version()
        super().__init__(Asking(num_clients), roster or Roster(), numpy_clients, **options)
        self.server_learning_rate = server_learning_rate
        self.round_timeout = round_timeout
        self.statistics = Statistics(unweighted)
        self.unweighted: tuple[int, ...] = ()  # positions in the model of the running round
        self.summation = summation or PlainSum()
        if privacy is not None:
            self.summation = privacy.around(self.summation)
        self.groups = Groups({})
        self.ledger = Ledger()
        self.deliveries = Deliveries()
        self.last_round: RoundReport | None = None
        self.outcome = Outcome()
        self._round: Round | None = None
        self._sent: list[Message] = []
        self._names: list[str] = []
        self._opened_at = 0.0

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
        refuse_wrappers(self)
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
        self.timeout, self.offset = timeout, self.ledger.round
        self.summation.check_rounds(self.offset + num_rounds)
        if (left := self.summation.rounds_left(num_rounds)) < num_rounds:
            log.warning("The privacy budget has room for %d of %d rounds.", left, num_rounds)
        try:
            grid = with_deadline(grid)
            result = super().start(grid, initial_arrays, left, timeout, *args, **kwargs)
        finally:
            self.offset = 0
        self.outcome.finish()
        return result

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        """Ask the nodes that are there, each with the last round in which it was counted."""
        if not isinstance(transform := getattr(self, "transform", None), Transform):
            raise ValueError(f"transform is {transform!r}, but must be an instance of a Transform.")
        refuse_wrappers(self)
        self.ledger.open(server_round + self.offset)
        self._opened_at = time.monotonic()
        model = decode_all(arrays)
        check_model(model)
        self._names, self.unweighted = list(model), self.statistics.positions(model)
        separation, asked = self.summation.separation, dict[int, list[int]]()
        if (before := self.summation.asked_before(self.ledger.round)) is not None:
            self.ledger.replay(before)
        elif self.summation.rounds_left(1):
            if self.fraction_train > 0:
                self.asking.begin(grid, self.ledger.round, self.min_available_nodes)
            here = self.asking.choose(grid, self.roster, self.fraction_train, self.min_train_nodes)
            awake = {node: separation.awake(some, self.ledger) for node, some in here.items()}
            asked = {node: some for node, some in awake.items() if some}
        else:
            log.warning("The privacy budget is spent: nobody is asked in this round.")
        scalars = (*self.transform.scalars, *self.summation.scalars)
        layout = Layout(model, self.transform.parts, scalars, tuple(named(model, self.unweighted)))
        self._round = Round(
            number=self.ledger.round,
            attempts=tuple(self.ledger.attempts),
            layout=layout.numbered() if self.numpy_clients else layout,
            order=self.roster.number,
            grid=grid,
            timeout=self.deadline,
            asked=asked,
            example_key=self.weighted_by_key,
        )
        say = partial(
            self.ledger.config,
            hosting=self.roster.hosting,
            transform=self.transform.to_text(),
            groups=self.groups.weights(),
            unweighted=self.unweighted,
        )
        rest = separation.to_config()
        self.deliveries.repeat(self, self._round, config)
        messages = [
            self.message(node, MessageType.TRAIN, arrays, {**config, **say(clients), **rest})
            for node, clients in asked.items()
        ]
        self._sent = self.summation.open(self._round, messages)
        return self._sent

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Add up the contributions that arrived and let the rule make its step."""
        this, number = self._round, server_round + self.offset
        if this is None or this.number != number:
            raise ValueError(
                f"aggregate_train was called for round {number}, but configure_train was not."
            )
        replies = expected(replies, this.asked)
        if not self.numpy_clients and are_numpy_clients(replies):
            self.numpy_clients = True
            this, replies = ask_numpy_clients(this, self._sent, replies, self.summation.secure)
        self._round, self._sent = None, []
        result = self.summation.close(this, replies)
        self.ledger.count(result.clients, released=result.released)
        self.groups.advance(group for group in result.groups if group in self.groups)
        self.last_round = RoundReport.of(this, result, time.monotonic() - self._opened_at)
        self.last_round.log()
        self.outcome.note(self.last_round)
        if not self.roster.hosting:
            self.asking.compare(len(self.ledger.counted))
            self.outcome.hint(metrics=bool(result.metrics) or self.summation.secure)
        model = stepped(self.step, this.layout, result.parts, len(result.clients))
        self.deliveries.send(self, this, result.clients, model)
        metrics = result.mean_metrics(self.train_metrics_aggr_fn, self.weighted_by_key)
        return encode(dict(zip(self._names, model.values(), strict=True))), metrics

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
            "deliveries": self.deliveries.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a checkpoint, as a new attempt that starts with the round after it."""
        self.ledger.load_state_dict(state["ledger"])
        self.groups.load_state_dict(state["groups"])
        self.deliveries.load_state_dict(state.get("deliveries", {}))
        # A checkpoint of version 0.1 has what is private about a sum by another name.
        self.summation.load_state_dict(state.get("summation", state.get("privacy", {})))
        self.ledger.resume_after(*self.summation.last_release())
