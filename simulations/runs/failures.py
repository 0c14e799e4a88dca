"""What ends a simulation before its last round."""

from __future__ import annotations

from collections.abc import Sequence

from flwr.app import Message

from fedau_flwr import _flower
from fedau_flwr.server.loop import RunFailure

__all__ = ["RunFailure", "check_replies"]


def check_replies(replies: Sequence[Message], *, expected: int | None = None) -> None:
    """Raise `RunFailure` if a node crashed or, where all are `expected`, is silent.

    In a simulation a crash is no absence: it would bias the result without anybody noticing. A
    client that refuses to send something is another matter.
    """
    for reply in replies:
        if reply.has_error() and reply.error.code != _flower.ErrorCode.MOD_FAILED_PRECONDITION:
            # Ray puts a whole traceback into the reason; what happened is in its last line.
            reason = (reply.error.reason or "no reason given").strip().splitlines()[-1]
            reason = reason[:500].rstrip(".")
            raise RunFailure(f"Node {reply.metadata.src_node_id} failed: {reason}.")
    if expected is not None and len(replies) != expected:
        raise RunFailure(f"{expected - len(replies)} of {expected} nodes did not answer in time.")
