"""A TCP proxy that records what a client sends, and can lose a request on its way."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import BinaryIO, Self


@dataclass(frozen=True)
class Request:
    """One HTTP request as it came over the wire."""

    path: str
    head: bytes
    body: bytes


@dataclass
class Cut:
    """Lose requests for ``path``, the first ``skip`` of them excepted, until it is lifted."""

    path: str
    skip: int = 0
    happened: threading.Event = field(default_factory=threading.Event)
    lifted: threading.Event = field(default_factory=threading.Event)


class Proxy:
    """Stands between one client and a SuperLink without TLS.

    Parameters
    ----------
    upstream : str
        Address ``host:port`` of the SuperLink.
    """

    def __init__(self, upstream: str) -> None:
        host, port = upstream.rsplit(":", 1)
        self._upstream = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = {self._listener}
        self._threads: list[threading.Thread] = []
        self._cut: Cut | None = None
        self.requests: list[Request] = []
        self._spawn(self._accept)

    @property
    def address(self) -> str:
        """Where the client has to connect to."""
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def cut(self, path: str, *, skip: int = 0) -> Cut:
        """Drop the connection after the body of a request for ``path``, and of every retry.

        The request does not reach the SuperLink; everything else does. ``lifted.set()`` ends it.
        """
        with self._lock:
            self._cut = Cut(path, skip)
            return self._cut

    def close(self) -> None:
        """Close every connection and wait for the threads."""
        with self._lock:
            sockets, self._sockets = self._sockets, set()
        for connection in sockets:
            _shut(connection)
        for thread in self._threads:
            thread.join(timeout=5.0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _spawn(self, target: Callable[..., None], *arguments: socket.socket) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # closed
            try:
                server = socket.create_connection(self._upstream)
            except OSError:
                _shut(client)  # the SuperLink is down, and the client must notice
                continue
            with self._lock:
                self._sockets |= {client, server}
            self._spawn(self._requests, client, server)
            self._spawn(self._answers, server, client)

    def _requests(self, client: socket.socket, server: socket.socket) -> None:
        try:
            with client.makefile("rb") as stream:
                while request := read_request(stream):
                    with self._lock:
                        self.requests.append(request)
                        lost = self._is_lost(request)
                    if lost:
                        break
                    server.sendall(request.head + request.body)
        except OSError:
            pass  # either side went away
        finally:
            self._drop(client, server)

    def _answers(self, server: socket.socket, client: socket.socket) -> None:
        try:
            while content := server.recv(65536):
                client.sendall(content)
        except OSError:
            pass  # either side went away
        finally:
            self._drop(client, server)

    def _is_lost(self, request: Request) -> bool:
        cut = self._cut
        if cut is None or cut.lifted.is_set() or request.path != cut.path:
            return False
        if cut.skip > 0:
            cut.skip -= 1
            return False
        cut.happened.set()
        return True

    def _drop(self, *connections: socket.socket) -> None:
        with self._lock:
            self._sockets -= set(connections)
        for connection in connections:
            _shut(connection)


def _shut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # never connected, or the other side was faster
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


def read_request(stream: BinaryIO) -> Request | None:
    """Read one HTTP/1.1 request, None at the end of the stream."""
    first = stream.readline()
    if not first:
        return None
    head = [first]
    headers = {}
    while (line := stream.readline()) not in (b"\r\n", b""):
        head.append(line)
        name, _, value = line.partition(b":")
        headers[name.strip().lower()] = value.strip().lower()
    head.append(b"\r\n")
    if headers.get(b"transfer-encoding") == b"chunked":
        body = b"".join(read_chunks(stream))
    else:
        body = stream.read(int(headers.get(b"content-length", b"0")))
    return Request(first.split()[1].decode(), b"".join(head), body)


def read_chunks(stream: BinaryIO) -> Iterator[bytes]:
    """Read a chunked body as it is, sizes included."""
    while True:
        size = stream.readline()
        chunk = stream.read(int(size.split(b";")[0], 16) + 2)
        yield size + chunk
        if chunk == b"\r\n":
            return
