"""`FedAUMod`: turns any Flower client into a FedAU client."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

from flwr.app import ConfigRecord, Context, Error, Message, MessageType, RecordDict

from .. import _flower
from ..arrays import Arrays
from ..weighting import FedAUWeighting, Weighting
from ..wire.dialects import NUMPY_METRICS, NUMPY_PARAMETERS, reply_content
from ..wire.records import decode_all, encode
from ..wire.requests import GROUP, LABEL_RECORD, Refusal
from .contribution import with_placeholders
from .contributor import Contributor, Importance, open_store
from .store import Store
from .transform import Transform

log = logging.getLogger("flwr.fedau")

CallNext = Callable[[Message, Context], Message]


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
    transforms : Iterable[type[Transform]] (default: ())
        The client halves of methods of your own, for strategies that name them.

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
        transforms: Iterable[type[Transform]] = (),
    ) -> None:
        self._contributor = Contributor(
            weighting or FedAUWeighting(), importance, report, store, tuple(transforms)
        )

    def __call__(self, message: Message, context: Context, call_next: CallNext) -> Message:
        """Handle one message; all but train messages pass through."""
        if message.metadata.message_type.split(".")[0] != MessageType.TRAIN:
            return call_next(message, context)
        try:
            return self._train(message, context, call_next)
        except Refusal as refusal:
            return refuse(message, refusal)

    def _train(self, message: Message, context: Context, call_next: CallNext) -> Message:
        given, arrays = _only(message.content.array_records, "ArrayRecord", "train message")
        _, config = _only(message.content.config_records, "ConfigRecord", "train message")
        # Taken before the app runs: it may empty or change the message that it is given.
        config = ConfigRecord({**config})
        model = decode_all(arrays)
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
            parts, group = self._contributor.contribute(config, context, model, train)
        except _AppError as failure:
            return failure.reply
        name = next(iter(replies[0].content.array_records))
        reported = _reported(replies[0].content, self._contributor.report)
        main = with_placeholders(next(iter(parts.values())), model)
        content = reply_content(name, main, parts, reported)
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
    error = Error(code=_flower.ErrorCode.MOD_FAILED_PRECONDITION, reason=str(refusal))
    return Message(error, reply_to=message)


def _only(records: Any, kind: str, where: str) -> tuple[str, Any]:
    if len(records) != 1:
        raise Refusal(f"The {where} holds {len(records)} {kind}s, but must hold exactly one.")
    name = next(iter(records))
    return name, records[name]


def _reported(content: RecordDict, report: tuple[str, ...]) -> dict[str, Any]:
    """Return the metrics in `report`, from wherever the app put them."""
    records: list[Any] = list(content.metric_records.values())
    if NUMPY_PARAMETERS in content.array_records:
        records = [content.config_records.get(NUMPY_METRICS, {})]
    reported = {k: v for record in records for k, v in record.items() if k in report}
    for name in report:
        if name not in reported:
            log.warning("Metric %r is to be reported, but the app's reply does not hold it.", name)
    return reported
