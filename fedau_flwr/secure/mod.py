"""`SecureSumMod`: the client's side of a secure sum, as a Flower mod."""

from __future__ import annotations

import logging
from typing import Any

from flwr.app import (
    Array,
    ArrayRecord,
    ConfigRecord,
    Context,
    Error,
    Message,
    MessageType,
    RecordDict,
)
from flwr.clientapp.typing import ClientAppCallable
from flwr.common.constant import ErrorCode

from ..contribution import decode_all, is_averaged
from ..preparation import PREPARATION, Preparation
from ..protocol import HOSTED, LABEL_RECORD
from .client import SecureClient
from .errors import RefusalError
from .message import Exchange
from .payload import Payload

log = logging.getLogger("flwr.fedau")

RECORD = "fedau-secure"
"""The record that marks a message of the protocol and holds its fields."""
VECTOR = "fedau-secure.vector"
"""The record that holds the masked vector."""
REPORT = "report-clipping"


class SecureSumMod:
    """A Flower mod that lets nothing leave the client but its part of a secure sum.

    Put it outside of `FedAUMod`: ``ClientApp(mods=[SecureSumMod(), FedAUMod()])``. The strategy
    needs ``summation=SecureSum(...)``. A client with this mod answers no train message in clear,
    whatever the server asks.

    Parameters
    ----------
    min_cohort : int (default: 3)
        The smallest number of clients, itself included, among whom this client hides.

    Notes
    -----
    The secrets of a round are kept in `Context.state` until the round is over; a SuperNode that
    stops in between loses this round and nothing else.
    """

    def __init__(self, *, min_cohort: int = 3) -> None:
        SecureClient(0, min_cohort=min_cohort)
        self._min_cohort = min_cohort

    def __call__(self, message: Message, context: Context, call_next: ClientAppCallable) -> Message:
        """Handle one message; all but train messages pass through."""
        if message.metadata.message_type.split(".")[0] != MessageType.TRAIN:
            return call_next(message, context)
        try:
            return self._answer(message, context, call_next)
        except RefusalError as refusal:
            log.error("Refused a message of a secure sum: %s.", refusal)
            reason = f"refused: {refusal}"
            return Message(Error(ErrorCode.MOD_FAILED_PRECONDITION, reason), reply_to=message)

    def _answer(self, message: Message, context: Context, call_next: ClientAppCallable) -> Message:
        if RECORD not in message.content.config_records:
            raise RefusalError("this client takes part in secure sums only")
        request: dict[str, Any] = {**message.content.config_records[RECORD]}
        kept = context.state.config_records.get(RECORD, ConfigRecord())
        state = kept.get("state")
        client = SecureClient(
            message.metadata.dst_node_id,
            min_cohort=self._min_cohort,
            state=state if isinstance(state, bytes) else None,
        )
        exchange = request.get("exchange")
        if exchange == Exchange.MASKED:
            return self._masked(message, context, call_next, client, request)
        if exchange == Exchange.SHARES:
            reply: dict[str, Any] = {**client.deal_shares(request)}
        elif exchange == Exchange.UNMASK:
            reply = {**client.unmask(request)}
        else:
            reply = {**client.offer_keys(request)}
        _keep(context, client)
        return Message(RecordDict({RECORD: ConfigRecord(reply)}), reply_to=message)

    def _masked(
        self,
        message: Message,
        context: Context,
        call_next: ClientAppCallable,
        client: SecureClient,
        request: dict[str, Any],
    ) -> Message:
        client.accept_shares(request)
        _keep(context, client)
        del message.content[RECORD]
        preparation = _share_noise(message.content, client)
        if preparation.grid is None:
            raise RefusalError(f"the train message has no '{PREPARATION}' with a grid")
        reply = call_next(message, context)
        if reply.has_error():
            return reply
        arrays, hosted = _contribution(reply.content)
        payload = Payload(
            shapes=tuple(value.shape for value in arrays),
            fixed_point=preparation.grid,
            report_clipping=request.get(REPORT) is True,
        )
        try:
            vector = payload.encode(arrays, clients=max(len(hosted), 1))
        except ValueError as error:
            raise RefusalError(f"the contribution cannot be summed: {error}") from None
        fields, masked = client.mask(vector)
        _keep(context, client)
        content = RecordDict(
            {
                RECORD: ConfigRecord({**fields, "hosted": hosted}),
                VECTOR: ArrayRecord({"masked": Array(masked)}),
            }
        )
        return Message(content, reply_to=message)


def _keep(context: Context, client: SecureClient) -> None:
    context.state[RECORD] = ConfigRecord({"state": client.state()})


def _share_noise(content: RecordDict, client: SecureClient) -> Preparation:
    """Turn the noise that the sum must have into this client's share of it.

    The client reckons with the fewest clients that it would help to unmask, and so need not
    believe the server in how many there are.
    """
    for config in content.config_records.values():
        if PREPARATION in config:
            preparation = Preparation.from_config(config)
            shared = preparation.shared(client.least_survivors)
            config.update(shared.to_config())
            return shared
    return Preparation()


def _contribution(content: RecordDict) -> tuple[list[Any], list[int]]:
    """Return the arrays to be summed and the clients of a host, and refuse all that is more."""
    if len(content.array_records) != 1:
        raise RefusalError("the reply does not hold exactly one ArrayRecord")
    reported = [
        *(k for r in content.metric_records.values() for k in r if k != "num_examples"),
        *content.config_records.get("fitres.metrics", ()),
        *(k for k in content.config_records.get(LABEL_RECORD, ()) if k != HOSTED),
    ]
    if reported:
        raise RefusalError(f"a secure sum takes no metric or label, but {reported} is to be sent")
    label = content.config_records.get(LABEL_RECORD, ConfigRecord())
    hosted: Any = label.get(HOSTED, [])
    record = next(iter(content.array_records.values()))
    arrays = [value for value in decode_all(record).values() if is_averaged(value.dtype)]
    return arrays, hosted if isinstance(hosted, list) else []
