"""Evaluation every k rounds, by a function or on the nodes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

from flwr.app import ArrayRecord, ConfigRecord, MetricRecord

from ..loop import Callback, RoundLoop
from ..report import RoundReport


class _Evaluation(Callback):
    def __init__(self, every: int) -> None:
        if every < 1:
            raise ValueError(f"every is {every!r}, but must be at least 1.")
        self._every = every

    def after_round(self, loop: RoundLoop, report: RoundReport) -> None:
        """Evaluate if it is time to; the last round always is evaluated."""
        if loop.round % self._every == 0 or loop.round == loop.rounds:
            with loop.timed("evaluate"):
                metrics = self._evaluate(loop)
            loop.metrics |= metrics or {}

    @abstractmethod
    def _evaluate(self, loop: RoundLoop) -> MetricRecord | None:
        """Return the metrics of the model."""


class Evaluate(_Evaluation):
    """Evaluates the model by a function such as Flower's `start()` takes.

    Parameters
    ----------
    evaluate_fn : Callable[[int, ArrayRecord], MetricRecord | None]
        Takes the round and the model.
    every : int (default: 1)
        Rounds between evaluations.
    """

    def __init__(
        self, evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None], *, every: int = 1
    ) -> None:
        super().__init__(every)
        self._function = evaluate_fn

    def _evaluate(self, loop: RoundLoop) -> MetricRecord | None:
        metrics = self._function(loop.round, loop.arrays)
        if metrics is not None:
            loop.result.evaluate_metrics_serverapp[loop.round] = metrics
        return metrics


class EvaluateOnNodes(_Evaluation):
    """Lets the strategy evaluate the model on the nodes (its ``fraction_evaluate`` says on whom).

    Parameters
    ----------
    every : int (default: 1)
        Rounds between evaluations.
    config : ConfigRecord | None (default: None)
        What evaluate messages say to the nodes.
    """

    def __init__(self, *, every: int = 1, config: ConfigRecord | None = None) -> None:
        super().__init__(every)
        self._config = config or ConfigRecord()

    def _evaluate(self, loop: RoundLoop) -> MetricRecord | None:
        config = ConfigRecord({**self._config})
        messages = loop.strategy.configure_evaluate(loop.round, loop.arrays, config, loop.grid)
        replies = loop.grid.send_and_receive(messages, timeout=loop.timeout)
        metrics = loop.strategy.aggregate_evaluate(loop.round, replies)
        if metrics is not None:
            loop.result.evaluate_metrics_clientapp[loop.round] = metrics
        return metrics
