"""What the mod and the mixin share: a client's settings, and the way from update to reply."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass

from flwr.app import Context

from ..arrays import Arrays
from ..weighting import Weighting
from ..wire.parts import Parts
from ..wire.requests import GROUP, Refusal, Request
from .participant import Participant
from .preparation import Preparation
from .state_directory import StateDirectory
from .store import ContextStore, Store
from .transform import Transform

STATE_DIR = "fedau-state-dir"
_EXAMPLE_COUNTS = {"num-examples", "num_examples"}
_weighting_now: ContextVar[bool] = ContextVar("weighting_now", default=False)
Importance = float | Callable[[Context], float]


def state_directory(context: Context) -> StateDirectory | None:
    """Return the directory in which this client keeps its state, if one is configured."""
    root = context.node_config.get(STATE_DIR) or context.run_config.get(STATE_DIR)
    if not root:
        return None
    # A node id is no name for a client: without node authentication each start brings a new one.
    return StateDirectory(str(root), f"client-{context.node_config.get('partition-id', 'only')}")


def open_store(context: Context) -> Store:
    """Return where this client keeps its state: a directory if one is configured."""
    return state_directory(context) or ContextStore(context)


@dataclass(frozen=True, slots=True)
class Contributor:
    """A client's settings.

    Parameters
    ----------
    weighting : Weighting
        How the client's history becomes its weight.
    importance : float | Callable[[Context], float]
        The client's `q·N/Γ` in a weighted objective, or a function of the context.
    report : tuple[str, ...]
        Metrics that may leave the client beside its contribution.
    store : Callable[[Context], Store]
        Where the client keeps its state.
    transforms : tuple[type[Transform], ...]
        Transforms that the client knows beside those of this package.
    """

    weighting: Weighting
    importance: Importance = 1.0
    report: tuple[str, ...] = ()
    store: Callable[[Context], Store] = open_store
    transforms: tuple[type[Transform], ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.weighting, Weighting):
            raise ValueError(
                f"weighting is {self.weighting!r}, but must be a weighting such as "
                "FedAUWeighting(cutoff=50)."
            )
        if isinstance(self.report, str):
            raise ValueError(f"report is {self.report!r}, but must be a tuple of metric names.")
        if _EXAMPLE_COUNTS & {*self.report}:
            raise ValueError(
                f"report is {self.report!r}, but must not name the example count, by which a "
                "strategy of fedau_flwr knows an unweighted model."
            )
        for kind in self.transforms:
            if not (isinstance(kind, type) and issubclass(kind, Transform)):
                raise ValueError(
                    f"transforms has {kind!r}, but must have classes derived from Transform."
                )

    def contribute(
        self,
        config: Mapping[str, object],
        context: Context,
        model: Arrays,
        train: Callable[[Arrays], Arrays],
    ) -> tuple[Parts, str | None]:
        """Train and return the contribution, and the group label that goes with it if any."""
        for key in config:
            if "clipping_norm" in key or "clipping-norm" in key:
                raise Refusal(
                    f"The config has {key!r}, but Flower's clipping measures a reply against the "
                    "model and cannot be combined with weighted updates: use fedau_flwr.privacy."
                )
        request = Request.from_config(config)
        group = self._group(request, context)
        participant = Participant(self.store(context), self.weighting, self.transforms)
        if _weighting_now.get():
            raise Refusal(
                "FedAUMod or FedAUMixin is applied twice to this client, so its update would be "
                "weighted twice: keep one of them."
            )
        token = _weighting_now.set(True)
        try:
            parts = participant.contribute(
                request,
                model,
                train,
                importance=self._importance(context),
                group=group,
                preparation=Preparation.from_config(config),
            )
        finally:
            _weighting_now.reset(token)
        return parts, group

    def _importance(self, context: Context) -> float:
        value = self.importance(context) if callable(self.importance) else self.importance
        if not isinstance(value, int | float) or not 0 <= value < math.inf:
            raise Refusal(f"importance is {value!r}, but must be a finite number >= 0.")
        return value

    def _group(self, request: Request, context: Context) -> str | None:
        group = context.node_config.get(GROUP)
        if group is None or not request.groups:
            return None
        if group not in request.groups:
            raise Refusal(
                f"{GROUP} is {group!r}, but the server knows the groups {sorted(request.groups)}."
            )
        return str(group)
