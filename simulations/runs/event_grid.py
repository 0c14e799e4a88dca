"""An event-driven in-memory grid: messages that nobody has to look for.

Flower's simulation engine looks for new messages every tenth of a second, and goes through all
messages for every node when it does. A round of many clients per node has few messages and lasts
less than a second, so this is what it would mostly wait for; with one client per node it is a third
of a core. ServerApp and engine share one process and one `LinkState`, in which messages and replies
are laid down, so each can be told when there is something to fetch. Arrays do not travel with the
messages where the simulator has set up files for them (`simulations.runs.shared_arrays`).
"""

from __future__ import annotations

import inspect
import logging
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from threading import Condition, Lock
from typing import Any

from flwr.app import Message
from flwr.serverapp import Grid

from fedau_flwr import _flower
from fedau_flwr.server.forwarding import ForwardingGrid
from simulations.runs.ahead import BusyWorkers, busy_workers
from simulations.runs.shared_arrays import RECORD, SharedArrays

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
    if not in_reach:
        yield grid
        return
    with (
        closing(EventDrivenGrid(grid)) as quick,
        busy_workers(quick.state.store_message_res) as quick.workers,
    ):
        yield quick


def _now() -> str:
    return datetime.now(UTC).isoformat()


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
    if not isinstance(grid.state.message_ins_store, dict):
        raise TypeError(f"{kind.__name__} keeps no messages in a dictionary.")
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
        lock = Lock()
        self._offered, self._replied = Condition(lock), Condition(lock)
        self._first_node: int | None = None
        self._waiting: deque[str] = deque()
        self._answered: set[str] = set()
        self._closed = False
        self.workers: BusyWorkers | None = None
        """To which messages can go straight away, if there are any."""
        self._shared = SharedArrays.of_this_process()
        self._store_reply = self.state.store_message_res
        vars(self.state).update({name: getattr(self, own) for name, own in REPLACED.items()})

    def close(self) -> None:
        """Give the state its own methods back and let go of the engine."""
        with self._offered:
            self._closed = True
            self._offered.notify_all()
        for name in REPLACED:
            vars(self.state).pop(name, None)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Lay the messages down; the engine is woken for those that no worker takes at once."""
        messages = list(messages)
        if self._shared is not None:
            messages = self._shared.outgoing(messages)
        ids = list(super().push_messages(messages))
        if waiting := [name for name in ids if not self._sent(name)]:
            with self._offered:
                self._waiting.extend(waiting)
                self._offered.notify_all()
        return ids

    def _sent(self, name: str) -> bool:
        message = self.state.message_ins_store.get(name)
        if self.workers is None or message is None or not self.workers.send_now(message):
            return False
        message.metadata.delivered_at = _now()
        return True

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Return the replies that are there, with their arrays."""
        replies = list(super().pull_messages(message_ids))
        for reply in replies:
            if self._shared is not None and reply.has_content() and RECORD in reply.content:
                reply.content = self._shared.with_arrays(reply.content)
        return replies

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> list[Message]:
        """Push messages and return the replies that come within `timeout` seconds."""
        asked = set(self.push_messages(messages))
        end = None if timeout is None else time.monotonic() + timeout
        replies: list[Message] = []
        while asked:
            with self._replied:
                while not (arrived := asked & self._answered):
                    left = None if end is None else end - time.monotonic()
                    if (left is not None and left <= 0) or not self._replied.wait(left):
                        return replies
                self._answered -= arrived
            replies += self.pull_messages(arrived)
            asked -= arrived
        return replies

    def _next_for_node(
        self, node_id: int, limit: int | None, *, run_id: int | None = None
    ) -> Iterable[Message]:
        """Return the messages for all nodes, as they come, to who asks for those of the first.

        The engine looks at one node after the other and then rests for a tenth of a second, which
        is longer than a round may take. It goes through what it is given, so that this is a stream.
        """
        if self._first_node is None:
            self._first_node = node_id
        return self._stream() if node_id == self._first_node else ()

    def _stream(self) -> Iterator[Message]:
        """Yield messages until there has been none for a while."""
        while True:
            with self._offered:
                self._offered.wait_for(lambda: self._waiting or self._closed, PATIENCE)
                if self._closed or not self._waiting:
                    return
                message = self.state.message_ins_store.get(self._waiting.popleft())
            if message is not None and not message.metadata.delivered_at:
                message.metadata.delivered_at = _now()
                yield message

    def _reply_came(self, message: Message) -> str | None:
        """Lay a reply down and wake whoever waits for it."""
        stored: str | None = self._store_reply(message)
        with self._replied:
            self._answered.add(message.metadata.reply_to_message_id)
            self._replied.notify_all()
        return stored
