"""A line from the engine to each of its workers, on which messages travel without Ray.

A call of an actor of Ray takes a millisecond there and another one back, in threads of both
processes that want the workers' cores, while a round of hosts takes less than a hundred. So an
actor on this machine is called once in a run: it serves what comes through a socket until that is
closed. Its process remains Ray's, and when it ends, what Ray says about it is the answer to all
messages that are still with it. On other machines every message is a call.
"""

from __future__ import annotations

import os
import secrets
import socket
import traceback
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Client, Connection, Listener
from multiprocessing.reduction import ForkingPickler
from queue import SimpleQueue
from threading import RLock, Thread
from typing import Any

from flwr.app import Context, Message

from fedau_flwr import _flower
from simulations.runs.shared_arrays import DIRECTORY

_KIND = socket.AF_UNIX, socket.SOCK_STREAM
AppFn = Callable[[], Any]
Answer = tuple[str, Message, Context]
"""As Flower's actors give it: the client, its reply, and its context afterwards."""


class Calls:
    """A worker that is called for every message."""

    def __init__(self, actor: Any) -> None:
        self.actor = actor

    def send(
        self, app_fn: AppFn, message: Message, client: str, context: Context
    ) -> Future[Answer]:
        """Send a message, and return the answer to come."""
        sent: Future[Answer] = self.actor.run.remote(app_fn, message, client, context).future()
        return sent

    def close(self) -> None:
        """Let the worker go."""


class Line(Calls):
    """A worker that is called once, when there is a first message for it."""

    def __init__(self, actor: Any, directory: str) -> None:
        super().__init__(actor)
        # Nobody else can open what is in this directory.
        self._address = f"{directory}/line-{secrets.token_hex(4)}"
        self._lock = RLock()  # what has ended already says so at once
        self._called = False
        self._connection: Connection[Any, Any] | None = None
        self._early: list[bytes] = []
        self._waiting: deque[Future[Answer]] = deque()
        self._end: BaseException | None = None

    def send(
        self, app_fn: AppFn, message: Message, client: str, context: Context
    ) -> Future[Answer]:
        """Send a message, and return the answer to come."""
        asked, answer = _pickled((message, client, context)), Future[Answer]()
        with self._lock:
            if not self._called and self._end is None:
                self._call(app_fn)
            if self._end is None:
                self._waiting.append(answer)
                if self._connection is None:
                    self._early.append(asked)
                else:
                    with suppress(OSError):  # then it has ended, and that is the answer
                        self._connection.send_bytes(asked)
                return answer
        answer.set_exception(self._end)
        return answer

    def close(self) -> None:
        """Let the worker go: what it has been sent, it may still do, but nobody hears of it."""
        with self._lock:
            self._end = self._end or EOFError("The run has ended.")
            if self._connection is not None:
                # To close it would not wake the thread that reads from it, nor tell the worker.
                with suppress(OSError), socket.fromfd(self._connection.fileno(), *_KIND) as ours:
                    ours.shutdown(socket.SHUT_RDWR)
            elif self._called:
                with suppress(OSError):  # whoever waits for the worker waits no longer
                    Client(self._address, "AF_UNIX").close()

    def _call(self, app_fn: AppFn) -> None:
        listener = Listener(self._address, "AF_UNIX")
        try:
            whole = self.actor.run.remote(Session(app_fn, self._address), None, "", None).future()
        except BaseException:
            listener.close()
            raise
        self._called = True
        Thread(target=self._listen, args=(listener,), daemon=True).start()
        whole.add_done_callback(self._ended)

    def _listen(self, listener: Listener) -> None:
        """Hand out the answers as they come, which is in the order of the messages."""
        with listener:
            try:
                connection = listener.accept()
            except OSError as error:
                # A worker that nobody listens to ends, and with it all that waits.
                with self._lock:
                    self._end = self._end or error
                return
        with connection, suppress(EOFError, OSError):
            try:
                self._hand_out(connection)
            finally:
                with self._lock:
                    self._connection = None

    def _hand_out(self, connection: Connection[Any, Any]) -> None:
        with self._lock:
            if self._end is not None:
                return
            self._connection = connection
            for asked in self._early:
                connection.send_bytes(asked)
            self._early.clear()
        while True:
            found = connection.recv()
            with self._lock:
                if not self._waiting:  # the worker has ended, and that was the answer
                    return
                answer = self._waiting.popleft()
            if isinstance(found, Failure):
                answer.set_exception(found.exception())
            else:
                answer.set_result(found)

    def _ended(self, whole: Future[Answer]) -> None:
        """Answer whoever waits with the reason for which nobody else will."""
        with self._lock:
            self._end = self._end or whole.exception() or EOFError("The worker has ended.")
            waiting, self._waiting = self._waiting, deque()
        for answer in waiting:
            answer.set_exception(self._end)


@dataclass(frozen=True)
class Failure:
    """That an app has failed on a message, and where."""

    sentence: str
    place: str

    def exception(self) -> Exception:
        """Return what Flower's actor would have raised."""
        failure: Exception = _flower.ClientAppException(self.sentence)
        failure.add_note(self.place)
        return failure


@dataclass(frozen=True)
class Session:
    """What an actor gets in place of an app: serves a line until that is closed."""

    app_fn: AppFn
    address: str

    def __call__(self) -> Callable[..., None]:
        """Return what the actor calls with a message, of which there is none."""
        return self.serve

    def serve(self, message: None, context: None) -> None:
        """Answer messages with the app until there are no more."""
        asked: SimpleQueue[bytes] = SimpleQueue()
        with Client(self.address, "AF_UNIX") as connection:
            # Who sends must not wait for the app, so what comes is read at once.
            Thread(target=_read, args=(connection, asked), daemon=True).start()
            with suppress(OSError):
                while data := asked.get():
                    connection.send_bytes(self._answer(data))

    def _answer(self, data: bytes) -> bytes:
        try:
            message, client, context = ForkingPickler.loads(data)
            reply = self.app_fn()(message=message, context=context)
            return _pickled((client, reply, context))
        except Exception as error:
            return _pickled(Failure(str(error), traceback.format_exc()))


def _read(connection: Connection[Any, Any], asked: SimpleQueue[bytes]) -> None:
    """Put what comes into a queue, and nothing at the end."""
    with suppress(EOFError, OSError):
        while True:
            asked.put(connection.recv_bytes())
    asked.put(b"")


def _pickled(value: object) -> bytes:
    return bytes(ForkingPickler.dumps(value))


def reached(actor: Any) -> Calls:
    """Return how a worker is reached: by a line if the simulator has all on this machine."""
    directory = os.environ.get(DIRECTORY)
    return Line(actor, directory) if directory else Calls(actor)
