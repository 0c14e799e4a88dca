"""`FedAUMod`: turns any Flower client into a FedAU client."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from flwr.app import (
    ArrayRecord,
    ConfigRecord,
    Context,
    Error,
    Message,
    MessageType,
    MetricRecord,
    RecordDict,
)
from flwr.clientapp.typing import ClientAppCallable
from flwr.common.constant import ErrorCode

from ..weighting import FedAUWeighting, Weighting
from ..wire.records import decode_all, encode
from ..wire.requests import GROUP, LABEL_RECORD, Refusal, Request
from .contribution import with_placeholders
from .participant import Participant
from .preparation import Preparation
from .state_directory import StateDirectory
from .store import Arrays, ContextStore, Store

log = logging.getLogger("flwr.fedau")

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
    """What the mod and the mixin share: a client's settings, and the way from update to reply.

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
    """

    weighting: Weighting
    importance: Importance = 1.0
    report: tuple[str, ...] = ()
    store: Callable[[Context], Store] = open_store

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

    def contribute(
        self,
        config: Mapping[str, object],
        context: Context,
        model: Arrays,
        train: Callable[[], Arrays],
    ) -> tuple[Arrays, str | None]:
        """Train and return the contribution, and the group label that goes with it if any."""
        for key in config:
            if "clipping_norm" in key or "clipping-norm" in key:
                raise Refusal(
                    f"The config has {key!r}, but Flower's clipping measures a reply against the "
                    "model and cannot be combined with weighted updates: use fedau_flwr.privacy."
                )
        request = Request.from_config(config)
        group = self._group(request, context)
        participant = Participant(self.store(context), self.weighting)
        if _weighting_now.get():
            raise Refusal(
                "FedAUMod or FedAUMixin is applied twice to this client, so its update would be "
                "weighted twice: keep one of them."
            )
        token = _weighting_now.set(True)
        try:
            contribution = participant.contribute(
                request,
                model,
                train,
                importance=self._importance(context),
                group=group,
                preparation=Preparation.from_config(config),
            )
        finally:
            _weighting_now.reset(token)
        return with_placeholders(contribution, model), group

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


class FedAUMod:
    """A Flower mod that sends the weighted update instead of the trained model.

    ``ClientApp(mods=[FedAUMod()])`` is all that an existing app needs, in any framework: the
    mod takes the model from the train message, lets the app train, and replies with
    `ω (y − x)` and nothing else, whatever the app's own reply held. The server must use a
    strategy of this package, which also says which method it runs: under `MIFA` and
    `FedVARP` the mod sends the change against what it sent before, with weight 1.

    Parameters
    ----------
    weighting : Weighting (default: FedAUWeighting())
        `UnitWeighting()` and `InverseProbabilityWeighting(p)` are the alternatives.
    importance : float | Callable[[Context], float] (default: 1.0)
        This client's `q·N/Γ` in a weighted objective `Σ q_n F_n / Γ`, multiplied to the update.
    report : tuple[str, ...] (default: ())
        Names of metrics in the app's reply that are sent along.
    store : Callable[[Context], Store] (default: open_store)
        Where the client keeps its state, if neither of the two places below will do.

    Notes
    -----
    Flower calls the first mod of a list last on the way back: put this one before mods that work
    on the trained model, and after those that work on what is sent, such as `SecureSumMod`.

    State is kept in `Context.state`, or in the directory that the node config (in simulation,
    the run config) names as ``fedau-state-dir``: a SuperNode forgets the former when it stops.
    """

    def __init__(
        self,
        weighting: Weighting | None = None,
        *,
        importance: Importance = 1.0,
        report: tuple[str, ...] = (),
        store: Callable[[Context], Store] = open_store,
    ) -> None:
        self._contributor = Contributor(weighting or FedAUWeighting(), importance, report, store)

    def __call__(self, message: Message, context: Context, call_next: ClientAppCallable) -> Message:
        """Handle one message; all but train messages pass through."""
        if message.metadata.message_type.split(".")[0] != MessageType.TRAIN:
            return call_next(message, context)
        try:
            return self._train(message, context, call_next)
        except Refusal as refusal:
            return refuse(message, refusal)

    def _train(self, message: Message, context: Context, call_next: ClientAppCallable) -> Message:
        _, arrays = _only(message.content.array_records, "ArrayRecord", "train message")
        _, config = _only(message.content.config_records, "ConfigRecord", "train message")
        # Taken before the app runs: it may empty or change the message that it is given.
        config = ConfigRecord({**config})
        model = decode_all(arrays)
        replies: list[Message] = []

        def train() -> Arrays:
            reply = call_next(message, context)
            if reply.has_error():
                raise _AppError(reply)
            replies.append(reply)
            _, trained = _only(reply.content.array_records, "ArrayRecord", "reply")
            return decode_all(trained)

        try:
            contribution, group = self._contributor.contribute(config, context, model, train)
        except _AppError as failure:
            return failure.reply
        content = _minimal(replies[0].content, encode(contribution), self._contributor.report)
        if group is not None:
            content[LABEL_RECORD] = ConfigRecord({GROUP: group})
        return Message(content, reply_to=message)


class _AppError(Exception):
    """The app itself replied with an error, which is passed on as it is."""

    def __init__(self, reply: Message) -> None:
        super().__init__()
        self.reply = reply


def refuse(message: Message, refusal: Refusal) -> Message:
    """Return the error reply for a message that a client will not answer."""
    log.error("%s", refusal)
    error = Error(code=ErrorCode.MOD_FAILED_PRECONDITION, reason=str(refusal))
    return Message(error, reply_to=message)


def _only(records: Any, kind: str, where: str) -> tuple[str, Any]:
    if len(records) != 1:
        raise Refusal(f"The {where} holds {len(records)} {kind}s, but must hold exactly one.")
    name = next(iter(records))
    return name, records[name]


def _minimal(reply: RecordDict, contribution: ArrayRecord, report: tuple[str, ...]) -> RecordDict:
    """Return a reply with the contribution and nothing else but the metrics in `report`."""
    name = next(iter(reply.array_records))
    content = RecordDict({name: contribution})
    if name == "fitres.parameters":
        metrics = reply.config_records.get("fitres.metrics", ConfigRecord())
        content["fitres.metrics"] = ConfigRecord({**_reported([metrics], report)})
        content["fitres.num_examples"] = MetricRecord({"num_examples": 1})
        content["fitres.status"] = ConfigRecord({"code": 0, "message": "Success"})
    elif reported := _reported(reply.metric_records.values(), report):
        content["metrics"] = MetricRecord(reported)
    return content


def _reported(records: Any, report: tuple[str, ...]) -> dict[str, Any]:
    reported = {k: v for record in records for k, v in record.items() if k in report}
    for name in report:
        if name not in reported:
            log.warning("Metric %r is to be reported, but the app's reply does not hold it.", name)
    return reported
