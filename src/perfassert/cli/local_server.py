"""One page and its answers over HTTP, for a browser on the same machine and nobody else.

It listens on 127.0.0.1; the path begins with a random word that only its user knows; names other
than the machine's own (DNS rebinding) and requests of other pages are refused; no file is served.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import Any

from perfassert.errors import PerfAssertError
from perfassert.report.document import plain
from perfassert.version import VERSION

_HOST = "127.0.0.1"
_LARGEST = 1 << 20  # bytes of a question
_PATIENCE = 10.0  # seconds for a request to arrive
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
    """``page`` at ``address``; ``answers`` by the last word of the path. One question at a time.

    ``folder``: where files of questions are kept; answers do not name it. ``redirect``: a file that
    leads a browser to the page, and is deleted when the page has been served.
    """

    daemon_threads = True
    allow_reuse_address = False

    def __init__(self, port: int, page: str, answers: Mapping[str, Answer], folder: str) -> None:
        super().__init__((_HOST, port), _Handler)
        self.page = page.encode()
        self.answers = answers
        self.folder = json.dumps(f"{folder}/")[1:-1]
        self.path = f"/{secrets.token_urlsafe(24)}/"
        self.busy = Lock()
        self.redirect: Path | None = None

    @property
    def address(self) -> str:
        """What the browser opens."""
        return f"http://{_HOST}:{self.server_address[1]}{self.path}"


class _Handler(BaseHTTPRequestHandler):
    server: LocalServer
    timeout = _PATIENCE
    server_version = f"perfassert/{VERSION}"
    sys_version = ""

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
            return HTTPStatus.OK, {"error": str(error)}  # an answer, too: it is about the kernel
        except Exception as error:
            message = f"internal error: {type(error).__name__}: {error}"
            return HTTPStatus.INTERNAL_SERVER_ERROR, {"error": message}

    def _accepts(self, name: str) -> bool:
        """Whether the request may be answered; else it has been refused."""
        port = self.server.server_address[1]
        hosts = [f"{host}:{port}" for host in (_HOST, "localhost")]
        origins = [None, *(f"http://{host}" for host in hosts)]
        if self.headers.get("Host") not in hosts or self.headers.get("Origin") not in origins:
            self._refuse(HTTPStatus.FORBIDDEN, "only the page itself may ask, on this machine")
            return False
        asked, own = self.path.encode(), f"{self.server.path}{name}".encode()
        if not secrets.compare_digest(asked, own):
            self._refuse(HTTPStatus.NOT_FOUND, "there is no such page")
            return False
        return True

    def _content(self) -> bytes | None:
        """The question; None where it has been refused."""
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal():
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
        self.send_response(status)
        for name, value in {**_HEADERS, "Content-Type": kind}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args: Any) -> None:
        """Nothing: the terminal is the user's."""
