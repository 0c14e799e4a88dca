"""`FedAUMod`: turns any Flower client into a FedAU client."""

import logging
import math
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from typing import Any

from flwr.app import ConfigRecord, Context, Error, Message, MessageType
from flwr.clientapp.mod import LocalDpMod

from .. import _flower
from .._log import log
from ..arrays import Arrays
from ..calling import caller
from ..checks import check
from ..weighting import FedAUWeighting, Weighting
from ..wire.dialects import reply_content
from ..wire.parts import Parts
from ..wire.records import decode_all, encode
from ..wire.requests import GROUP, LABEL_RECORD, SECURE_RECORD, Refusal, Request
from .apps import check_app
from .delivery import confirmation, is_delivery, receive
from .identity import answer_identity, asks_identity
from .participant import Participant
from .policy import NodePolicy
from .preparation import Preparation
from .reporting import metrics_of, reported
from .separation import Resting, Separation
from .state_directory import open_store
from .store import Store
from .transform import Transform

CallNext = Callable[[Message, Context], Message]
Importance = float | Callable[[Context], float]
_weighting_now: ContextVar[bool] = ContextVar("weighting_now", default=False)


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
        `UnitWeighting()` and `InverseProbabilityWeighting(p)` are the alternatives. With a
        separation b the default has the cutoff max(50, 4b).
    importance : float | Callable[[Context], float] (default: 1.0)
        This client's `q·N/Γ` in a weighted objective `Σ q_n F_n / Γ`, multiplied to the update.
    report : tuple[str, ...] (default: ())
        Names of metrics in the app's reply that are sent along.
    store : Callable[[Context], Store] (default: open_store)
        Where the client keeps its state, if neither of the two places below will do.
    transforms : Iterable[type[Transform]] (default: ())
        The client halves of methods of your own, for strategies that name them.
    separation : int (default: 1)
        Take part at most once in so many rounds, over all attempts and restarts of a training;
        rounds that were answered count, whether the server counted them or not. The node config
        says the same as ``fedau-separation``, and a server that relies on it says so in its
        messages: the largest number holds.
    participations : int | None (default: None)
        Take part at most so many times in a training; ``fedau-participations`` in the node config.

    Notes
    -----
    Flower calls the first mod of a list last on the way back: put this one before mods that work
    on the trained model, and after those that work on what is sent, such as `SecureSumMod`.

    State is kept in `Context.state`, or in the directory that the node config names as
    ``fedau-state-dir``: a SuperNode forgets the former when it stops.
    """

    def __init__(
        self,
        weighting: Weighting | None = None,
        *,
        importance: Importance = 1.0,
        report: tuple[str, ...] = (),
        store: Callable[[Context], Store] = open_store,
        transforms: Iterable[type[Transform]] = (),
        separation: int = 1,
        participations: int | None = None,
    ) -> None:
        self._separation = Separation(separation, participations)
        self._weighting = weighting
        self._importance = importance
        self._report = report
        self._store = store
        self._transforms = tuple(transforms)
        fine = weighting is None or isinstance(weighting, Weighting)
        check("weighting", weighting, fine, "a weighting such as FedAUWeighting(cutoff=50)")
        if weighting is not None:
            self._separation.check_cutoff(weighting)
        check("report", report, not isinstance(report, str), "a tuple of metric names")
        fine = not {"num-examples", "num_examples"} & {*report}
        rule = "without the example count, by which a strategy knows an unweighted model"
        check("report", report, fine, rule)
        for kind in self._transforms:
            fine = isinstance(kind, type) and issubclass(kind, Transform)
            check("one of transforms", kind, fine, "a class derived from Transform")

    def __call__(self, message: Message, context: Context, call_next: CallNext) -> Message:
        """Handle one message; all but train messages pass through, if the node's owner agrees."""
        kind = message.metadata.message_type
        try:
            if asks_identity(message):
                NodePolicy.of(context).check_type(MessageType.QUERY)
                return answer_identity(message, context)
            if kind.split(".")[0] == MessageType.TRAIN:
                return self._train(message, context, call_next)
            NodePolicy.of(context).check_type(kind)
            return call_next(message, context)
        except Refusal as refusal:
            return refuse(message, refusal)

    def _train(self, message: Message, context: Context, call_next: CallNext) -> Message:
        if SECURE_RECORD in message.content:
            raise Refusal(
                "The server adds up securely, but nothing masks this client's contribution: put "
                "SecureSumMod first, as in ClientApp(mods=[SecureSumMod(), FedAUMod()])."
            )
        if caller(LocalDpMod) is not None:
            raise Refusal(
                "LocalDpMod comes before FedAUMod and would take a weighted update for a model: "
                "put it after, as in ClientApp(mods=[FedAUMod(), LocalDpMod(...)])."
            )
        given, arrays = _only(message.content.array_records, "ArrayRecord", "train message")
        _, config = _only(message.content.config_records, "ConfigRecord", "train message")
        # Taken before the app runs: it may empty or change the message that it is given.
        config = ConfigRecord({**config})
        model = decode_all(arrays)
        if is_delivery(message):
            self.receive(config, context, model)
            return confirmation(message)
        replies: list[Message] = []

        def train(start: Arrays) -> Arrays:
            if start is not model:
                message.content[given] = encode(start)
            reply = call_next(message, context)
            if reply.has_error():
                raise _AppError(reply)
            replies.append(reply)
            _, trained = _only(reply.content.array_records, "ArrayRecord", "reply")
            return decode_all(trained)

        try:
            parts, group = self.contribute(config, context, model, train)
        except _AppError as failure:
            return failure.reply
        name = next(iter(replies[0].content.array_records))
        metrics = metrics_of(replies[0].content)
        sent = reported(metrics, self._report, config, "FedAUMod(report={})")
        content = reply_content(name, model, parts, sent)
        if group is not None:
            content[LABEL_RECORD] = ConfigRecord({GROUP: group})
        return Message(content, reply_to=message)

    def contribute(
        self,
        config: Mapping[str, object],
        context: Context,
        model: Arrays,
        train: Callable[[Arrays], Arrays],
    ) -> tuple[Parts, str | None]:
        """Train and return the contribution, and the group label that goes with it if any."""
        policy = NodePolicy.of(context)
        policy.check_contribution()
        check_app(policy)
        for key in config:
            if "clipping_norm" in key or "clipping-norm" in key:
                raise Refusal(
                    f"The config has {key!r}, but Flower's clipping measures a reply against the "
                    "model and cannot be combined with weighted updates: use fedau_flwr.privacy."
                )
        request = Request.from_config(config)
        group = _group(request, context)
        separation = Separation.from_config(config).with_own(self._separation)
        separation = separation.with_own(Separation.from_config(context.node_config))
        weighting = self._weighting or FedAUWeighting(separation.cutoff)
        participant = Participant(self._store(context), weighting, self._transforms)
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
                importance=self._importance_in(context),
                group=group,
                preparation=Preparation.from_config(config),
                separation=separation,
            )
        finally:
            _weighting_now.reset(token)
        return parts, group

    def receive(self, config: Mapping[str, object], context: Context, arrays: Arrays) -> None:
        """Keep what the server delivers after a round in which this client was counted."""
        receive(self._store(context), Request.from_config(config), config, arrays)

    def _importance_in(self, context: Context) -> float:
        value = self._importance(context) if callable(self._importance) else self._importance
        fine = isinstance(value, int | float) and 0 <= value < math.inf
        check("importance", value, fine, "a finite number >= 0", Refusal)
        return value


def _group(request: Request, context: Context) -> str | None:
    group = context.node_config.get(GROUP)
    if group is None or not request.groups:
        return None
    if group not in request.groups:
        raise Refusal(
            f"{GROUP} is {group!r}, but the server knows the groups {sorted(request.groups)}."
        )
    return str(group)


class _AppError(Exception):
    """The app itself replied with an error, which is passed on as it is."""

    def __init__(self, reply: Message) -> None:
        super().__init__()
        self.reply = reply


def refuse(message: Message, refusal: Refusal) -> Message:
    """Return the error reply for a message that a client will not answer."""
    log.log(logging.DEBUG if isinstance(refusal, Resting) else logging.ERROR, "%s", refusal)
    error = Error(code=_flower.ErrorCode.MOD_FAILED_PRECONDITION, reason=str(refusal))
    return Message(error, reply_to=message)


def _only(records: Any, kind: str, where: str) -> tuple[str, Any]:
    if len(records) != 1:
        raise Refusal(f"The {where} holds {len(records)} {kind}s, but must hold exactly one.")
    name = next(iter(records))
    return name, records[name]
