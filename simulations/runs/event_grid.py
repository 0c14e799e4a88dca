"""An event-driven in-memory grid: messages that nobody has to look for.

Flower's simulation engine looks for new messages every tenth of a second, and goes through all
messages for every node when it does. A round of many clients per node has few messages and lasts
less than a second, so this is what it would mostly wait for; with one client per node it is a third
of a core. ServerApp and engine share one process and one `LinkState`, in which messages and replies
are laid down, so each can be told when there is something to fetch.
"""

from __future__ import annotations

import inspect
import logging
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, nullcontext
from threading import Condition
from typing import Any

from flwr.app import Message
from flwr.serverapp import Grid

from fedau_flwr import _flower
from fedau_flwr.server.forwarding import ForwardingGrid

log = logging.getLogger("flwr.simulations")

PATIENCE = 5.0
"""Seconds for which the engine waits for a message before it looks whether the run was stopped; a
message that comes just then waits for a tenth of a second."""

REPLACED = {"get_message_ins": "_next_for_node", "store_message_res": "_reply_came"}
"""Methods of Flower's state, and those that take their place."""


@contextmanager
def event_driven(grid: Grid) -> Iterator[Grid]:
    """Provide a grid to the same nodes without delay, where Flower's engine is in reach.

    Where Flower is another one than is known here, it is the grid itself, and the log says so.
    """
    try:
        in_reach = _is_known(grid)
    except (ImportError, AttributeError, TypeError) as error:
        log.info("Messages are fetched every tenth of a second, as Flower does it: %s", error)
        in_reach = False
    with closing(EventDrivenGrid(grid)) if in_reach else nullcontext(grid) as quick:
        yield quick


def _is_known(grid: Any) -> bool:
    """Return whether this is the engine's grid; raises where Flower is another one."""
    if type(grid) is not _flower.InMemoryGrid:
        return False
    kind = type(grid.state)
    for theirs, ours in REPLACED.items():
        found, known = (
            tuple(inspect.signature(method).parameters)
            for method in (getattr(kind, theirs), getattr(EventDrivenGrid, ours))
        )
        if found != known:
            raise TypeError(f"{kind.__name__}.{theirs} takes {found} instead of {known}.")
    return kind is _flower.InMemoryLinkState


class EventDrivenGrid(ForwardingGrid):
    """An in-memory grid whose two ends wake each other, in place of Flower's `grid`.

    The engine reads the state of that grid, which gets two methods of its own for the time of the
    run.
    """

    keeps_deadlines = True

    def __init__(self, grid: Any) -> None:
        super().__init__(grid)
        self.state = grid.state
        self._changed = Condition()
        self._first_node: int | None = None
        self._waiting: Counter[int] = Counter()
        self._answered: set[str] = set()
        self._closed = False
        self._fetch, self._store_reply = self.state.get_message_ins, self.state.store_message_res
        vars(self.state).update({name: getattr(self, own) for name, own in REPLACED.items()})

    def close(self) -> None:
        """Give the state its own methods back and let go of the engine."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for name in REPLACED:
            vars(self.state).pop(name, None)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Lay the messages down, then wake the engine: it takes all of them at once."""
        messages = list(messages)
        ids = super().push_messages(messages)
        with self._changed:
            self._waiting.update(message.metadata.dst_node_id for message in messages)
            self._changed.notify_all()
        return ids

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> list[Message]:
        """Push messages and return the replies that come within `timeout` seconds."""
        asked = set(self.push_messages(messages))
        end = None if timeout is None else time.monotonic() + timeout
        replies: list[Message] = []
        while asked:
            with self._changed:
                while not (arrived := asked & self._answered):
                    left = None if end is None else end - time.monotonic()
                    if (left is not None and left <= 0) or not self._changed.wait(left):
                        return replies
                self._answered -= arrived
            replies += self.pull_messages(arrived)
            asked -= arrived
        return replies

    def _next_for_node(
        self, node_id: int, limit: int | None, *, run_id: int | None = None
    ) -> list[Message]:
        """Return the messages for a node; while there are none for any, the first one waits."""
        if self._first_node is None:
            self._first_node = node_id
        with self._changed:
            if node_id == self._first_node:
                self._changed.wait_for(lambda: self._waiting or self._closed, PATIENCE)
            if node_id not in self._waiting:
                return []
        messages: list[Message] = self._fetch(node_id, limit, run_id=run_id)
        with self._changed:
            self._waiting[node_id] -= len(messages)
            if not messages or self._waiting[node_id] <= 0:
                del self._waiting[node_id]
        return messages

    def _reply_came(self, message: Message) -> str | None:
        """Lay a reply down and wake whoever waits for it."""
        stored: str | None = self._store_reply(message)
        with self._changed:
            self._answered.add(message.metadata.reply_to_message_id)
            self._changed.notify_all()
        return stored
