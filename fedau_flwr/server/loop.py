"""The round loop: what Flower's `start()` does, and callbacks for what a long training needs."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Message
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

from .deadlines import with_deadline
from .outcome import Outcome
from .report import RoundReport
from .summation import Summation

log = logging.getLogger("flwr.loop")

TIMEOUT = 3600.0
"""Seconds of a round at most if nobody says otherwise, as in Flower."""


class RunFailure(RuntimeError):
    """The run cannot go on; the message is one sentence for the user."""


class Callback:
    """Something that a `RoundLoop` does beside training; override what it needs.

    Two methods are enough for most: `before_round` and `after_round`. Callbacks are called in
    the order of the loop's list. What they measure, they put into `loop.metrics`, where others
    find it; `loop.stop` ends the run.
    """

    in_checkpoints: tuple[str, ...] = ()
    """Names of the attributes with which a resumed run goes on."""

    def prepare(self, loop: RoundLoop) -> None:
        """Come first of all: the round to go on from is not known yet."""

    def on_start(self, loop: RoundLoop) -> None:
        """Begin; `loop.round` rounds are in the model."""

    def before_round(self, loop: RoundLoop) -> None:
        """Come before round ``loop.round + 1``, which does not begin if this stops the loop."""

    def after_round(self, loop: RoundLoop, report: RoundReport) -> None:
        """Measure or decide something after round `loop.round`."""

    def round_done(self, loop: RoundLoop, report: RoundReport) -> None:
        """Write down what is known after a round: every callback's `after_round` is done."""

    def on_end(self, loop: RoundLoop) -> None:
        """End, in whatever way: `loop.status` and `loop.sentence` say how."""

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint needs."""
        return {name: getattr(self, name) for name in self.in_checkpoints}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a checkpoint."""
        for name in self.in_checkpoints:
            setattr(self, name, state[name])


class RoundLoop:
    """Runs the rounds of a training: any Flower strategy, any grid.

    ::

        loop = RoundLoop(
            strategy,
            grid,
            [Evaluate(evaluate, every=10), Checkpoints("run", every=10), Progress()],
        )
        result = loop.run(initial_arrays, num_rounds=100)

    A node that fails, refuses or is late is an absence, and any other exception ends the run as
    ``failed``; `check_replies` may be stricter.

    Parameters
    ----------
    strategy : Strategy
        Flower's own or any other.
    grid : Grid
        Reaches the nodes. If it has a method ``set_round``, as `AvailabilityGrid` does, it is
        told every round's number.
    callbacks : Iterable[Callback]
        Everything but training, in this order; see `fedau_flwr.server.callbacks`.
    train_config : ConfigRecord | Callable[[int], ConfigRecord] | None (default: None)
        What train messages say to the nodes, or a function of the round that returns it.
    timeout : float | None (default: None)
        Seconds after which a round goes on without those who have not replied, and their
        messages' longest time to live. By default the strategy's ``round_timeout``, if it has
        one, or an hour.
    check_replies : Callable[[list[Message]], None] | None (default: None)
        Sees the replies before they are aggregated; what it raises ends the run.

    Attributes
    ----------
    round, rounds : int
        Rounds that are in the model, and that it shall have.
    arrays : ArrayRecord
        The model.
    status, sentence : str
        ``running``, ``finished``, ``stopped``, ``diverged`` or ``failed``, and that in words.
    attempt : int
        1, and one more at every resume.
    metrics : dict[str, Any]
        What the nodes reported and callbacks measured in this round, by name.
    spent : dict[str, float]
        Seconds of this attempt by phase: configure, exchange, aggregate and those of callbacks.
    round_seconds : float
        Those of the last round, callbacks left out.
    result : Result
        The metrics of this attempt's rounds in Flower's own form.
    """

    def __init__(
        self,
        strategy: Strategy,
        grid: Grid,
        callbacks: Iterable[Callback] = (),
        *,
        train_config: ConfigRecord | Callable[[int], ConfigRecord] | None = None,
        timeout: float | None = None,
        check_replies: Callable[[list[Message]], None] | None = None,
    ) -> None:
        self.strategy = strategy
        self.grid = with_deadline(grid)
        self.callbacks = list(callbacks)
        self.timeout = timeout or getattr(strategy, "round_timeout", None) or TIMEOUT
        self.round = self.rounds = 0
        self.arrays = ArrayRecord()
        self.status, self.sentence = "running", "The run is going on."
        self.attempt = 1
        self.metrics: dict[str, Any] = {}
        self.spent: dict[str, float] = defaultdict(float)
        self.round_seconds = 0.0
        self.result = Result()
        self._set_round = getattr(grid, "set_round", None)
        self._summation: Any = getattr(strategy, "summation", None)
        self._train_config = train_config
        self._check_replies = check_replies
        self._earlier = 0.0

    @property
    def seconds(self) -> float:
        """Seconds of training and evaluation so far, over all attempts."""
        here = sum(seconds for phase, seconds in self.spent.items() if phase != "checkpoint")
        return self._earlier + here

    def run(self, initial_arrays: ArrayRecord, num_rounds: int = 3) -> Result:
        """Run until the model has `num_rounds` rounds, or a callback or an error ends it."""
        self.arrays, self.rounds = initial_arrays, num_rounds
        failure: BaseException | None = None
        try:
            for callback in self.callbacks:
                callback.prepare(self)
            if hasattr(self._summation, "check_rounds"):
                self._summation.check_rounds(self.rounds)
            for callback in self.callbacks:
                callback.on_start(self)
            while self.status == "running" and self.round < self.rounds:
                self._next_round()
            if self.status == "running" or (self.status == "stopped" and self.round >= self.rounds):
                self.status = "finished"
                self.sentence = f"The run finished its {self.rounds} rounds."
        except BaseException as error:
            failure = self._failed(error)
        for callback in self.callbacks:
            try:
                callback.on_end(self)
            except BaseException as error:
                if failure is not None:
                    log.warning("%s failed as well: %s", type(callback).__name__, error)
                failure = failure or self._failed(error)
        if failure is not None:
            raise failure
        log.info("%s", self.sentence)
        if isinstance(outcome := getattr(self.strategy, "outcome", None), Outcome):
            outcome.finish()
        self.result.arrays = self.arrays
        return self.result

    def stop(self, sentence: str, *, status: str = "stopped") -> None:
        """End the run after this round, for a reason that `sentence` gives."""
        if self.status == "running" or status == "diverged":
            self.status, self.sentence = status, sentence

    def restore(
        self, server_round: int, arrays: ArrayRecord, *, seconds: float, attempt: int
    ) -> None:
        """Go on after an earlier round, as the given attempt."""
        self.round, self.arrays, self.attempt = server_round, arrays, attempt
        self._earlier = seconds

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Count the time of a block for a phase."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.spent[phase] += time.perf_counter() - start

    def _next_round(self) -> None:
        self.metrics = {}
        for callback in self.callbacks:
            callback.before_round(self)
        budget = getattr(self._summation, "rounds_left", None)
        if budget is not None and budget(1) < 1:
            where = f"round {self.round} of {self.rounds}"
            self.stop(f"The run was stopped after {where}, because the privacy budget is spent.")
        if self.status != "running":
            return
        report = self._train(self.round + 1)
        for callback in self.callbacks:
            callback.after_round(self, report)
        for callback in self.callbacks:
            callback.round_done(self, report)

    def _train(self, number: int) -> RoundReport:
        """Let the strategy and the nodes do one round of training."""
        began = time.monotonic()
        if self._set_round is not None:
            self._set_round(number)
        given = self._train_config(number) if callable(self._train_config) else self._train_config
        config = ConfigRecord({**given} if given else {})
        with self.timed("configure"):
            messages = list(self.strategy.configure_train(number, self.arrays, config, self.grid))
            for message in messages:  # nothing stale may queue up for a straggler
                message.metadata.ttl = min(message.metadata.ttl, self.timeout)
            nodes = tuple(message.metadata.dst_node_id for message in messages)
        with self.timed("exchange"):
            replies = list(self.grid.send_and_receive(messages, timeout=self.timeout))
        with self.timed("aggregate"):
            if self._check_replies is not None:
                self._check_replies(replies)
            arrived = [(reply.metadata.src_node_id, reply.has_error()) for reply in replies]
            arrays, metrics = self.strategy.aggregate_train(number, replies)
        self.arrays = self.arrays if arrays is None else arrays
        if metrics is not None:
            self.result.train_metrics_clientapp[number] = metrics
            self.metrics |= metrics
        self.round, self.round_seconds = number, time.monotonic() - began
        if isinstance(summation := getattr(self.strategy, "summation", None), Summation):
            self.metrics |= summation.metrics()
        return self._report(nodes, arrived)

    def _report(self, nodes: tuple[int, ...], arrived: list[tuple[int, bool]]) -> RoundReport:
        """Return the strategy's own report, or that of one that counts every reply."""
        own: RoundReport | None = getattr(self.strategy, "last_round", None)
        if own is not None and own.round == self.round:
            return own
        counted = tuple(node for node, error in arrived if not error)
        return RoundReport(
            round=self.round,
            asked=len(nodes),
            counted=len(counted),
            rejected=len(arrived) - len(counted),
            absent=len(nodes) - len(arrived),
            seconds=self.round_seconds,
            clients=counted,
            nodes=nodes,
        )

    def _failed(self, error: BaseException) -> BaseException:
        said = f"{error}"
        # A sentence is for the user; anything else needs its kind to be understood.
        kind = type(error).__name__
        self.sentence = said if said.endswith(".") else f"{kind}: {said}" if said else kind
        self.status = "failed"
        return error
