"""A grid whose deadlines hold.

Flower's grid of a deployment looks for replies every three seconds, and when the upload of one
reply broke off it waits minutes for the missing part, with all others behind it. Here each
reply is fetched on its own, and one that does not come in time is left behind. So is one that
cannot be read, which Flower notices only here, and one in another node's name.
"""

import math
import time
from collections.abc import Iterable
from concurrent.futures import Future, wait
from threading import Semaphore, Thread

import httpx
from flwr.app import Message
from flwr.serverapp import Grid

from .. import _flower
from .._log import log
from .forwarding import ForwardingGrid

_PULLS_AT_ONCE = 16
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.01, 0.5
_PULLS_PER_SECOND = 100
"""Many nodes that train for long must not keep the SuperLink busy with our questions."""


class DeadlineGrid(ForwardingGrid):
    """Does what `grid` does, but returns from `send_and_receive` when the time is up."""

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> list[Message]:
        """Send messages and return the replies that arrive within `timeout` seconds."""
        messages = list(messages)
        ids = self._grid.push_messages(messages)
        asked = {i: m.metadata.dst_node_id for i, m in zip(ids, messages, strict=True) if i}
        waiting = set(asked)
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        replies: list[Message] = []
        pulls: dict[Future[list[Message]], str] = {}
        slots = Semaphore(_PULLS_AT_ONCE)
        pause = _SHORTEST_PAUSE
        while waiting:
            for message_id in waiting - set(pulls.values()):
                pulls[_pull(self._grid, message_id, slots)] = message_id
            # Not longer: pulls that block must not keep us from looking for the other replies.
            done, _ = wait(pulls, timeout=_LONGEST_PAUSE)
            found = set()
            for pull in done:
                message_id = pulls.pop(pull)
                if (arrived := _arrived(pull, asked[message_id])) is not None:
                    found.add(message_id)
                    replies += arrived
            waiting -= found
            if time.monotonic() >= deadline:
                break
            pause = _SHORTEST_PAUSE if found else min(2 * pause, _LONGEST_PAUSE)
            if waiting:
                least = len(waiting) / _PULLS_PER_SECOND
                time.sleep(min(max(pause, least), max(deadline - time.monotonic(), 0)))
        return replies


def with_deadline(grid: Grid) -> Grid:
    """Return a grid whose deadlines hold: one that is not known to keep them is wrapped.

    A grid of this package that hands on to another one gets that one wrapped in its place.
    """
    if isinstance(grid, DeadlineGrid) or getattr(grid, "keeps_deadlines", False):
        return grid
    if isinstance(grid, ForwardingGrid):
        grid.forward_to(with_deadline(grid.target))
        return grid
    try:
        known = isinstance(grid, _flower.InMemoryGrid)
    except ImportError:
        known = False
    return grid if known else DeadlineGrid(grid)


def _arrived(pull: Future[list[Message]], node: int) -> list[Message] | None:
    """Return the reply of `node`, nothing if it is of no use, None if it is still to come."""
    try:
        pulled = pull.result()
    except (OSError, httpx.HTTPError, httpx.StreamError):
        raise  # the SuperLink, not what a node has sent
    except Exception as error:
        what = " ".join(f"{type(error).__name__}: {error}".split())[:500]
        log.warning("Rejected the reply of node %d: it cannot be read (%s).", node, what)
        return []
    if not pulled:
        return None
    honest = []
    for reply in pulled:
        if reply.metadata.src_node_id == node or _is_broken_off(reply):
            honest.append(reply)
        elif reply.has_error() and reply.metadata.src_node_id == _flower.SUPERLINK_NODE_ID:
            # Not the node's: it died, or its answer was lost on the SuperLink.
            log.warning("No reply of node %d: the SuperLink says %r.", node, reply.error.reason)
        else:
            log.warning("Rejected the reply of node %d: it is in the name of another.", node)
    return honest


def _is_broken_off(reply: Message) -> bool:
    """Return whether this is Flower's own error in the place of a reply whose upload broke off."""
    return reply.has_error() and reply.error.code == _flower.ErrorCode.MESSAGE_UNAVAILABLE


def _pull(grid: Grid, message_id: str, slots: Semaphore) -> Future[list[Message]]:
    """Fetch one reply in a thread that nobody has to wait for, not even the interpreter's end."""
    future: Future[list[Message]] = Future()

    def run() -> None:
        try:
            with slots:
                found = list(grid.pull_messages([message_id]))
        except Exception as error:
            future.set_exception(error)
        else:
            future.set_result(found)

    Thread(target=run, daemon=True).start()
    return future
