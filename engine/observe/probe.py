"""Probes and metrics of a daemon that serves nothing else: a small HTTP server on a port of its own.

    GET /livez     200 while the process turns
    GET /readyz    200 or 503, with what was found
    GET /metrics   Prometheus' text format, where metrics were given

It asks nobody for credentials, so it listens on this machine alone unless it is told otherwise.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

_log = logging.getLogger("aijobs.probe")

#: The status and body of ``/readyz``; see ``ReadinessCheck.body``.
Ready = Callable[[], tuple[int, dict[str, Any]]]


class ProbeServer:
    """Answers probes from threads of its own. Use as a context manager, or call ``start`` and ``close``."""

    def __init__(
        self,
        *,
        ready: Ready | None = None,
        metrics: Callable[[], tuple[str, bytes]] | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        """Listens at once, on any free port with 0. ``metrics`` gives content type and text. Raises ``OSError``."""
        self._answers: dict[str, Callable[[], tuple[int, str, bytes]]] = {
            "/livez": lambda: _json(200, {"status": "alive"}),
        }
        if ready is not None:
            self._answers["/readyz"] = lambda: _json(*ready())
        if metrics is not None:
            self._answers["/metrics"] = lambda: (200, *metrics())
        self._server = ThreadingHTTPServer((host, port), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="aijobs-probe", daemon=True
        )

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self._server.server_address[1])

    def start(self) -> Self:
        """Begin to answer."""
        self._thread.start()
        return self

    def close(self) -> None:
        """Stop answering and let go of the port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def answer(self, path: str) -> tuple[int, str, bytes]:
        """Status, content type and body for ``path``. Never raises: a probe that fails is an answer too."""
        found = self._answers.get(path.partition("?")[0])
        if found is None:
            return _json(404, {"status": "not found"})
        try:
            return found()
        except Exception as error:  # noqa: BLE001 - told as "not ready"
            _log.warning("a probe failed: %s", type(error).__name__)
            return _json(503, {"status": "failed"})

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        answer = self.answer

        class Handler(BaseHTTPRequestHandler):
            #: A client that sends nothing is let go, in seconds.
            timeout = 5

            def do_GET(self) -> None:
                status, kind, body = answer(self.path)
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def version_string(self) -> str:
                return "aijobs"

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its signature
                """Probes come every few seconds; none is worth a line."""

        return Handler


def _json(status: int, body: dict[str, Any]) -> tuple[int, str, bytes]:
    return status, "application/json", json.dumps(body).encode()
