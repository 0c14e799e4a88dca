"""Evaluation every k rounds, by a function or on the nodes."""

from collections.abc import Callable

from flwr.app import ArrayRecord, ConfigRecord, MetricRecord

from ...checks import check
from ..loop import Callback, RoundLoop
from ..report import RoundReport


class _Evaluation(Callback):
    """Evaluates by `evaluate`, and adds to the part `kept` of Flower's result."""

    def __init__(
        self, every: int, evaluate: Callable[[RoundLoop], MetricRecord | None], kept: str
    ) -> None:
        check("every", every, every >= 1, "at least 1")
        self._every, self._evaluate, self._kept = every, evaluate, kept

    def after_round(self, loop: RoundLoop, report: RoundReport) -> None:
        """Evaluate if it is time to; the last round always is evaluated."""
        if loop.round % self._every == 0 or loop.round == loop.rounds:
            with loop.timed("evaluate"):
                metrics = self._evaluate(loop)
            if metrics is not None:
                getattr(loop.result, self._kept)[loop.round] = metrics
                loop.metrics |= metrics


class Evaluate(_Evaluation):
    """Evaluates the model every so many rounds by a function such as Flower's `start()` takes."""

    def __init__(
        self, evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None], *, every: int = 1
    ) -> None:
        def evaluate(loop: RoundLoop) -> MetricRecord | None:
            return evaluate_fn(loop.round, loop.arrays)

        super().__init__(every, evaluate, "evaluate_metrics_serverapp")


class EvaluateOnNodes(_Evaluation):
    """Lets the strategy evaluate the model on the nodes (its ``fraction_evaluate`` says on whom).

    `config` is what evaluate messages say to the nodes, `every` how many rounds are between them.
    """

    def __init__(self, *, every: int = 1, config: ConfigRecord | None = None) -> None:
        def evaluate(loop: RoundLoop) -> MetricRecord | None:
            said = ConfigRecord({**config} if config else {})
            messages = loop.strategy.configure_evaluate(loop.round, loop.arrays, said, loop.grid)
            replies = loop.grid.send_and_receive(messages, timeout=loop.timeout)
            return loop.strategy.aggregate_evaluate(loop.round, replies)

        super().__init__(every, evaluate, "evaluate_metrics_clientapp")
