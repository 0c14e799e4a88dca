"""A record of what a client has answered, which all of its processes see.

A client's state travels with Flower's `Context`, of which several processes can hold the same
copy. A place in the protocol that was answered once is passed for good: the file holds the last
one, and only a later one can be recorded.
"""

import fcntl
import os
from pathlib import Path

from ..files import make_private_folder, open_handle
from .message import Exchange, RefusalError, RoundId, require

_FILE = "secure-answered"
_MOST_BYTES = 200


def record_answer(folder: Path, current: RoundId, exchange: Exchange) -> None:
    """Record an answer before it leaves, or refuse since it or a later one has left.

    `folder` is where the client keeps its state of the training.
    """
    place = (current.attempt, current.round, list(Exchange).index(exchange))
    try:
        make_private_folder(folder)
        handle = open_handle(folder / _FILE, os.O_RDWR)
    except OSError as error:
        raise RefusalError(
            f"fedau-state-dir must be a directory that can be written to ({error.strerror})"
        ) from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        again = f"the exchange '{exchange}' of round {current.round} was already answered"
        require(_last(handle) < place, again)
        text = " ".join(f"{number:020d}" for number in place)
        # Always of the same length, so that no longer text shines through.
        os.pwrite(handle, text.encode(), 0)
        os.fsync(handle)
    finally:
        os.close(handle)


def _last(handle: int) -> tuple[int, ...]:
    text = os.pread(handle, _MOST_BYTES, 0)
    if not text:
        return (0, 0, 0)
    try:
        attempt, number, exchange = (int(part) for part in text.split())
    except ValueError:
        raise RefusalError(f"the record of answers in '{_FILE}' is damaged") from None
    return attempt, number, exchange
