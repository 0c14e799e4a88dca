"""The server of `fedau watch`: the page, what it asks for, and nothing else.

It looks runs up among those that it found below its directory, so no request can name a file. It
answers those who call it by an address or as localhost, and no site that has its own name lead to
this machine (DNS rebinding). Nothing can be changed through it unless stops are allowed, and then
by those alone who know the token that the command printed.
"""

import base64
import ipaddress
import json
import logging
import secrets
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import AF_INET6
from threading import Lock
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
from numpy.typing import NDArray

from simulations.page import document
from simulations.page.raster import raster_of
from simulations.page.tree import Tree
from simulations.page.view import RunView

log = logging.getLogger("fedau.page")

STOPPABLE = ("running", "starting")


class PageServer(ThreadingHTTPServer):
    """Serves the runs below `root` on `host` and `port`; 0 is any free one."""

    daemon_threads = True

    def __init__(self, root: Path, *, host: str, port: int, allow_stop: bool) -> None:
        self.tree, self.lock = Tree(root), Lock()
        self.host = host
        self.token = secrets.token_urlsafe(16) if allow_stop else ""
        if ":" in host:
            self.address_family = AF_INET6
        super().__init__((host, port), _Handler)

    @property
    def url(self) -> str:
        """Where the page is; with the token, if there is one."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.server_port}/" + (f"#token={self.token}" if self.token else "")

    def known(self, header: str | None) -> bool:
        """Return whether a request's Host names this server, not a name made to lead here."""
        name = urlsplit(f"//{header or ''}").hostname or ""
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name in {"localhost", self.host.lower()}
        return True


class _Refusal(Exception):
    def __init__(self, status: HTTPStatus, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class _Handler(BaseHTTPRequestHandler):
    server: PageServer
    server_version, sys_version = "fedau", ""

    def do_GET(self) -> None:
        """Answer with a file of the page or with data."""
        self._answer(
            {
                "/": lambda: ("text/html", document.asset("page.html")),
                "/page.css": lambda: ("text/css", document.asset("page.css")),
                "/page.js": lambda: ("text/javascript", document.script()),
                "/api/runs": self._runs,
                "/api/run": lambda: _json(self._view().details()),
                "/api/raster": self._raster,
            }
        )

    def do_POST(self) -> None:
        """Stop a run, if that is allowed."""
        self._answer({"/api/stop": self._stop})

    def _answer(self, routes: dict[str, Callable[[], tuple[str, str]]]) -> None:
        status = HTTPStatus.OK
        try:
            if not self.server.known(self.headers.get("Host")):
                raise _Refusal(HTTPStatus.FORBIDDEN, "This server has another name.")
            route = routes.get(urlsplit(self.path).path)
            if route is None:
                raise _Refusal(HTTPStatus.NOT_FOUND, "There is nothing here.")
            with self.server.lock:
                kind, text = route()
        except _Refusal as refusal:
            status, kind, text = refusal.status, "text/plain", str(refusal)
        except Exception as error:  # of one run's files; the others are still worth showing
            log.exception("A request for %s failed.", urlsplit(self.path).path)
            status, kind = HTTPStatus.INTERNAL_SERVER_ERROR, "text/plain"
            text = f"The server failed: {type(error).__name__}: {error}"
        body = text.encode()
        self.send_response(status)
        for name, value in (
            ("Content-Type", f"{kind}; charset=utf-8"),
            ("Content-Length", str(len(body))),
            ("Content-Security-Policy", document.SERVED_POLICY),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", "no-referrer"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
        ):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _parameter(self, name: str) -> str:
        return parse_qs(urlsplit(self.path).query).get(name, [""])[0]

    def _number(self, name: str) -> int:
        text = self._parameter(name) or "0"
        if not text.isdecimal():
            raise _Refusal(HTTPStatus.BAD_REQUEST, f"{name} must be a number.")
        return int(text)

    def _runs(self) -> tuple[str, str]:
        changes = self.server.tree.changes(self._number("since"))
        return _json({**changes, "stops": bool(self.server.token)})

    def _view(self) -> RunView:
        tree = self.server.tree
        if not tree.views:
            tree.refresh()
        view = tree.views.get(self._parameter("id"))
        if view is None:
            raise _Refusal(HTTPStatus.NOT_FOUND, "There is no such run.")
        return view

    def _raster(self) -> tuple[str, str]:
        found = raster_of(self._view(), self._number("after"))
        return _json(found.to_dict() if found else {})

    def _stop(self) -> tuple[str, str]:
        given = self.headers.get("X-Token", "")
        if not self.server.token or not secrets.compare_digest(given, self.server.token):
            raise _Refusal(HTTPStatus.FORBIDDEN, "Runs cannot be stopped from here.")
        view = self._view()
        if view.summary["status"] not in STOPPABLE:
            raise _Refusal(HTTPStatus.CONFLICT, "The run has ended already.")
        view.run.stop_file.touch()
        return _json({"sentence": "The run ends after its round."})

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 -- http.server's own name
        """Say nothing: a page asks every second."""


def _json(value: Any) -> tuple[str, str]:
    return "application/json", json.dumps(value, allow_nan=False, default=_floats)


def _floats(values: NDArray[Any]) -> str:
    return base64.b64encode(np.asarray(values, "<f4").tobytes()).decode()
