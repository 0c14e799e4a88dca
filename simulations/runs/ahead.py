"""Messages that wait at a worker instead of a worker that waits for messages.

Flower's engine gives a worker its next message when it has fetched the last reply. Meanwhile the
worker's core is idle, for a millisecond or for several where the engine's threads wait for each
other and for a core; with one client per node that is a third of a round. Here a worker is sent the
next message while it still works on one, and its replies are laid down as they come.

Flower counts how long it waits for replies as the run time of ClientApps, which is then too short.
"""

from __future__ import annotations

import inspect
import logging
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from threading import Condition
from typing import Any
from uuid import uuid4

from flwr.app import Context, Error, Message

from fedau_flwr import _flower
from simulations.runs.lines import Calls, reached

log = logging.getLogger("flwr.simulations")

AHEAD = 2
"""Messages that a worker has at most, the one that it works on included."""


class BusyWorkers:
    """Takes the place of the method with which the engine has a message processed.

    Parameters
    ----------
    reply : Callable[[Message], object]
        Takes the replies, in threads of Ray.
    """

    def __init__(self, reply: Callable[[Message], object]) -> None:
        self._reply = reply
        self._changed = Condition()
        self._workers: list[Calls] = []
        self._load: list[int] = []
        self._nodes: set[int] = set()
        self._known: dict[int, tuple[Any, Context]] = {}
        self._closed = False

    def close(self) -> None:
        """Let go of the engine's threads, and of the workers."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for worker in self._workers:
            worker.close()

    def process_message(
        self, backend: Any, message: Message, context: Context
    ) -> tuple[Message | None, Context]:
        """Send a message to the worker that has the least to do, and wait only until one may.

        The engine lays down no reply when it is given none, and goes on to its next message.
        """
        node = message.metadata.dst_node_id
        with self._changed:
            if not self._workers:
                self._workers = [reached(actor) for actor in backend.pool.pool]
                self._load = [0] * len(self._workers)
            self._known[node] = backend, context
            self._changed.wait_for(lambda: self._closed or self._free(node))
            if self._closed:
                return None, context
            place = self._take(node)
        self._send(place, backend, context, message)
        return None, context

    def send_now(self, message: Message) -> bool:
        """Send a message without the engine's threads, if its node is known and a worker may."""
        node = message.metadata.dst_node_id
        with self._changed:
            if self._closed or node not in self._known or not self._free(node):
                return False
            place = self._take(node)
        try:
            self._send(place, *self._known[node], message)
        except Exception:
            log.debug("The engine will say what is wrong.", exc_info=True)
            return False
        return True

    def _free(self, node: int) -> bool:
        """Return whether a message can go: a node's context has what its last one has left."""
        return node not in self._nodes and min(self._load) < AHEAD

    def _take(self, node: int) -> int:
        """Return the worker that has the least to do, which has one message more now."""
        place = self._load.index(min(self._load))
        self._load[place] += 1
        self._nodes.add(node)
        return place

    def _send(self, place: int, backend: Any, context: Context, message: Message) -> None:
        node = message.metadata.dst_node_id
        try:
            client = str(context.node_config["partition-id"])
            sent = self._workers[place].send(backend.app_fn, message, client, context)
        except BaseException:
            self._freed(place, node)
            raise
        sent.add_done_callback(partial(self._done, place, message, context))

    def _done(self, place: int, message: Message, context: Context, future: Future[Any]) -> None:
        try:
            _, reply, after = future.result()
            context.state = after.state
        except Exception as error:
            reply = _failure(message, error)
        self._freed(place, message.metadata.dst_node_id)
        reply.metadata.__dict__["_message_id"] = str(uuid4())
        self._reply(reply)

    def _freed(self, place: int, node: int) -> None:
        with self._changed:
            self._load[place] -= 1
            self._nodes.discard(node)
            self._changed.notify_all()


def _failure(message: Message, error: Exception) -> Message:
    """Return the reply of the engine itself for a node that failed."""
    log.error("%s", "".join(traceback.format_exception(error)))
    code = _flower.ErrorCode.UNKNOWN
    if isinstance(error, _flower.ClientAppException):
        code = _flower.ErrorCode.CLIENT_APP_RAISED_EXCEPTION
    return Message(Error(code, f"{type(error)}:<'{error}'>"), reply_to=message)


@contextmanager
def busy_workers(reply: Callable[[Message], object]) -> Iterator[BusyWorkers | None]:
    """Send messages ahead for the time of a run, where Flower's engine is as it is known here."""
    try:
        backend = _flower.RayBackend
        own = backend.process_message
        if (found := tuple(inspect.signature(own).parameters)) != ("self", "message", "context"):
            raise TypeError(f"RayBackend.process_message takes {found}.")
    except (ImportError, AttributeError, TypeError) as error:
        log.info("A worker is sent a message when it has answered the last one: %s", error)
        yield None
        return
    workers = BusyWorkers(reply)

    def process_message(self: Any, message: Message, context: Context) -> Any:
        return workers.process_message(self, message, context)

    backend.process_message = process_message
    try:
        yield workers
    finally:
        backend.process_message = own
        workers.close()
