"""`FedAUMixin`: FedAU for class-based Flower clients."""

import functools
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from flwr.app import Context, Message

from ..arrays import Arrays
from ..weighting import Weighting
from ..wire.dialects import numbered, reply_arrays
from ..wire.requests import DELIVERY, GROUP, Refusal
from .mod import FedAUMod, Importance
from .reporting import reported
from .transform import Transform


class FedAUMixin:
    """Makes a class-based client send weighted updates.

    Put it first among the bases. For a `NumPyClient` it wraps `fit`, for a class whose
    `train(message, context)` is registered with a `ClientApp` it wraps `train`; whether these
    are methods of the class itself or of another base makes no difference::

        class MyClient(FedAUMixin, NumPyClient):
            def fit(self, parameters, config): ...

        def client_fn(context):
            return MyClient().with_context(context).to_client()

    A `NumPyClient` is never shown the context in which it runs, hence `with_context`.

    Attributes
    ----------
    fedau_weighting : Weighting | None
        How the client's history becomes its weight; None is FedAU's.
    fedau_importance : float | Callable[[Context], float]
        The client's `q·N/Γ` in a weighted objective.
    fedau_report : tuple[str, ...]
        Names of metrics that are sent along.
    fedau_transforms : tuple[type[Transform], ...]
        The client halves of methods of your own.
    fedau_separation : int
        Take part at most once in so many rounds.
    """

    fedau_weighting: Weighting | None = None
    fedau_importance: Importance = 1.0
    fedau_report: tuple[str, ...] = ()
    fedau_transforms: tuple[type[Transform], ...] = ()
    fedau_separation: int = 1
    _fedau_context: Context | None = None
    _fedau_inside: bool = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name, wrap in (("fit", _weighted_fit), ("train", _weighted_train)):
            if name in vars(cls):
                setattr(cls, name, wrap(vars(cls)[name]))

    def with_context(self, context: Context) -> Self:
        """Tell the client the context in which it runs, and return it."""
        self._fedau_context = context
        return self

    def fit(self, parameters: Any, config: Any) -> Any:
        """Let the next class in line train, and weight its update."""
        inner = super().fit  # type: ignore[misc]  # a mixin's super is known to its users only
        return _weighted_fit(lambda _, *arguments: inner(*arguments))(self, parameters, config)

    def train(self, message: Message, context: Context) -> Message:
        """Let the next class in line train, and weight its update."""
        inner = super().train  # type: ignore[misc]
        return _weighted_train(lambda _, *arguments: inner(*arguments))(self, message, context)


def _weighted_train(train: Callable[..., Message]) -> Callable[..., Message]:
    @functools.wraps(train)
    def weighted(self: FedAUMixin, message: Message, context: Context) -> Message:
        if self._fedau_inside:
            return train(self, message, context)
        call_next = functools.partial(_once, self, train)
        return _mod(self)(message, context, call_next)

    return weighted


def _weighted_fit(fit: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(fit)
    def weighted(self: FedAUMixin, parameters: Any, config: Any) -> Any:
        if self._fedau_inside:
            return fit(self, parameters, config)
        if self._fedau_context is None:
            raise Refusal(
                f"{type(self).__name__} does not know its context: return "
                f"`{type(self).__name__}(...).with_context(context).to_client()` from client_fn."
            )
        model = numbered(np.array(value) for value in parameters)
        if DELIVERY in config:
            _mod(self).receive(config, self._fedau_context, model)
            return [], 1, {}
        metrics: dict[str, Any] = {}

        def train(start: Arrays) -> Arrays:
            given = parameters if start is model else list(start.values())
            trained, _, own_metrics = _once(self, fit, given, config)
            metrics.update(own_metrics)
            return numbered(np.asarray(value) for value in trained)

        parts, group = _mod(self).contribute(config, self._fedau_context, model, train)
        sent = reported(metrics, self.fedau_report, config, "fedau_report = {} in the class")
        if group is not None:
            sent[GROUP] = group
        main, extra = reply_arrays(parts, model)
        return [*main.values(), *extra.values()], 1, sent

    return weighted


def _mod(self: FedAUMixin) -> FedAUMod:
    return FedAUMod(
        self.fedau_weighting,
        importance=self.fedau_importance,
        report=self.fedau_report,
        transforms=self.fedau_transforms,
        separation=self.fedau_separation,
    )


def _once(self: FedAUMixin, train: Callable[..., Any], *arguments: Any) -> Any:
    """Run the client's own training, in which calls of `super().fit` must not weight again."""
    self._fedau_inside = True
    try:
        return train(self, *arguments)
    finally:
        self._fedau_inside = False
