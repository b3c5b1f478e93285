"""HTTP server of one page and its answers, for a browser on the same machine only.

The server listens on 127.0.0.1. The path begins with a random word that only its user knows. The
server refuses host names other than the machine's own (DNS rebinding) and requests of other pages,
and serves no files.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedReader, RawIOBase
from pathlib import Path
from socket import socket
from threading import Lock
from time import monotonic
from typing import Any

from perfassert.errors import PerfAssertError
from perfassert.report.document import plain
from perfassert.version import VERSION

_HOST = "127.0.0.1"
_LARGEST = 1 << 20  # bytes of a request's content
_REQUEST_TIMEOUT = 10.0  # seconds: timeout for a whole request, and for each write of its answer
MAX_CONNECTIONS = 64
"""Largest number of open connections; further ones are closed at once."""
_JSON = "application/json"
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
Answer = Callable[[Mapping[str, Any]], Mapping[str, Any]]


class LocalServer(ThreadingHTTPServer):
    """HTTP server of ``page`` at ``address``, and of an answer for each path below it.

    ``answers`` maps the last word of a path to the function that answers a POST. One POST is
    answered at a time. ``folder`` holds temporary files, and its name is removed from answers.
    ``redirect`` is a file that opens the page in a browser. It is deleted when the page was served.
    """

    daemon_threads = True
    allow_reuse_address = False
    request_queue_size = MAX_CONNECTIONS

    def __init__(self, port: int, page: str, answers: Mapping[str, Answer], folder: str) -> None:
        super().__init__((_HOST, port), _Handler)
        self.page = page.encode()
        self.answers = answers
        self.folder = json.dumps(f"{folder}/")[1:-1]
        self.path = f"/{secrets.token_urlsafe(24)}/"
        self.busy = Lock()
        self.redirect: Path | None = None
        self.connections = 0
        self._counting = Lock()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread for a connection, unless there are too many."""
        with self._counting:
            if self.connections >= MAX_CONNECTIONS:
                self.shutdown_request(request)
                return
            self.connections += 1
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve one connection in its thread, and count it as closed afterwards."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._counting:
                self.connections -= 1

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing about errors of a connection: the terminal belongs to the user."""

    @property
    def address(self) -> str:
        """URL of the page for the browser."""
        return f"http://{_HOST}:{self.server_address[1]}{self.path}"


class _BoundedReader(RawIOBase):
    """Stream of received bytes that raises :class:`TimeoutError` once its time has run out."""

    def __init__(self, connection: socket) -> None:
        self._connection = connection
        self._end = monotonic() + _REQUEST_TIMEOUT

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self._end - monotonic()
        if left <= 0:
            raise TimeoutError
        self._connection.settimeout(left)
        return self._connection.recv_into(buffer)


class _Handler(BaseHTTPRequestHandler):
    server: LocalServer
    server_version = f"perfassert/{VERSION}"
    sys_version = ""

    def setup(self) -> None:
        super().setup()
        self.rfile = BufferedReader(_BoundedReader(self.connection))

    def do_GET(self) -> None:
        if self._accepts(""):
            self._send(HTTPStatus.OK, self.server.page, "text/html; charset=utf-8")
            if self.server.redirect is not None:
                self.server.redirect.unlink(missing_ok=True)

    def do_POST(self) -> None:
        name = self.path.rpartition("/")[2]
        if not self._accepts(name) or (content := self._content()) is None:
            return
        answer = self.server.answers.get(name)
        if answer is None:
            self._refuse(HTTPStatus.NOT_FOUND, "there is no such page")
            return
        status, reply = self._answer(answer, content)
        text = json.dumps(plain(reply)).replace(self.server.folder, "")
        self._send(status, text.encode(), _JSON)

    def _answer(self, answer: Answer, content: bytes) -> tuple[HTTPStatus, Mapping[str, Any]]:
        try:
            question = json.loads(content)
            if not isinstance(question, dict):
                raise ValueError("no table")
        except (ValueError, RecursionError):
            return HTTPStatus.BAD_REQUEST, {"error": "the question is no JSON table"}
        try:
            with self.server.busy:
                return HTTPStatus.OK, answer(question)
        except PerfAssertError as error:
            return HTTPStatus.OK, {"error": str(error)}  # an error in the kernel is an answer
        except Exception as error:
            message = f"internal error: {type(error).__name__}: {error}"
            return HTTPStatus.INTERNAL_SERVER_ERROR, {"error": message}

    def _accepts(self, name: str) -> bool:
        """Return True if the request may be answered; otherwise refuse it and return False."""
        port = self.server.server_address[1]
        hosts = [f"{host}:{port}" for host in (_HOST, "localhost")]
        origins = [None, *(f"http://{host}" for host in hosts)]
        is_cross_site = self._single("Sec-Fetch-Site") not in (None, "none", "same-origin")
        if (
            self._single("Host") not in hosts
            or self._single("Origin") not in origins
            or (is_cross_site and self.command != "GET")  # the redirect file is another site
        ):
            self._refuse(HTTPStatus.FORBIDDEN, "only the page itself may ask, on this machine")
            return False
        asked, own = self.path.encode(), f"{self.server.path}{name}".encode()
        if not secrets.compare_digest(asked, own):
            self._refuse(HTTPStatus.NOT_FOUND, "there is no such page")
            return False
        return True

    def _single(self, name: str) -> str | None:
        """Return the value of a header; None if it is missing.

        The values of a repeated header are joined by commas, which no check accepts.
        """
        values: list[str] = self.headers.get_all(name, [])
        return ", ".join(values) if values else None

    def _content(self) -> bytes | None:
        """Return the content of the request; None if the request has been refused."""
        length = self._single("Content-Length") or ""
        if not length.isdecimal() or "Transfer-Encoding" in self.headers:
            self._refuse(HTTPStatus.LENGTH_REQUIRED, "the length of the question is missing")
        elif len(length) > len(str(_LARGEST)) or int(length) > _LARGEST:
            reason = f"larger than {_LARGEST >> 20} MiB"
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, reason)
        elif self.headers.get_content_type() != _JSON:
            self._refuse(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"questions are {_JSON}")
        else:
            return self.rfile.read(int(length))
        return None

    def _refuse(self, status: HTTPStatus, reason: str) -> None:
        self.close_connection = True
        self._send(status, json.dumps({"error": reason}).encode(), _JSON)

    def _send(self, status: HTTPStatus, content: bytes, kind: str) -> None:
        self.connection.settimeout(_REQUEST_TIMEOUT)
        self.send_response(status)
        for name, value in {**_HEADERS, "Content-Type": kind}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args: Any) -> None:
        """Log nothing: the terminal belongs to the user."""
