"""What leaves of an app's reply: a contribution and nothing else, and of an error no word."""

from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Context, Error, Message, RecordDict

from .. import _flower
from .._log import log
from ..arrays import is_averaged
from ..client.mod import CallNext
from ..server.reasons import is_numpy_client
from ..wire.parts import PARTS_RECORD
from ..wire.records import decode_all
from ..wire.requests import HOSTED, LABEL_RECORD
from .message import require

APP_FAILED = "the app of this node failed; the node's own log says why"
"""All that leaves of an error in the app, whose words could hold anything."""
NUMPY_CLIENT = "KeyError: 'fitins.parameters'"
"""What leaves of the one that a `NumPyClient` has when it is asked in other records."""


def run_without_words(message: Message, context: Context, call_next: CallNext) -> Message:
    """Run the app; of its errors nothing leaves but that there was one."""
    codes = _flower.ErrorCode
    failed, refused = codes.CLIENT_APP_RAISED_EXCEPTION, codes.MOD_FAILED_PRECONDITION
    try:
        reply = call_next(message, context)
    except Exception as error:  # Flower would send its words
        log.exception("The app raised an exception.")
        known = isinstance(error, KeyError) and is_numpy_client(repr(error))
        return Message(Error(failed, NUMPY_CLIENT if known else APP_FAILED), reply_to=message)
    if not reply.has_error():
        return reply
    log.error("The app answered with an error: %s", reply.error.reason)
    code = refused if reply.error.code == refused else failed
    return Message(Error(code, APP_FAILED), reply_to=message)


def contribution_of(content: RecordDict) -> tuple[list[Any], list[int]]:
    """Return the arrays to be summed and the clients of a host, and refuse all that is more."""
    records = dict(content.array_records)
    extra = records.pop(PARTS_RECORD, ArrayRecord())
    require(len(records) == 1, "the reply does not hold exactly one ArrayRecord")
    label = content.config_records.get(LABEL_RECORD, ConfigRecord())
    reported = [
        *(k for r in content.metric_records.values() for k in r if k != "num_examples"),
        *content.config_records.get("fitres.metrics", ()),
        *(k for k in label if k != HOSTED),
    ]
    if reported:
        log.error("A secure sum takes no metric or label, but %s is to be sent.", reported)
    require(not reported, "a secure sum takes no metric or label, but the app has one to be sent")
    hosted: Any = label.get(HOSTED, [])
    (record,) = records.values()
    arrays = [*decode_all(record).values(), *decode_all(extra).values()]
    arrays = [value for value in arrays if is_averaged(value.dtype)]
    return arrays, hosted if isinstance(hosted, list) else []
