"""A real HTTP server in this process: uvicorn on a port of its own, in a thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, Self

import uvicorn

from tests.support.wait import PATIENCE_S, eventually


class WebServer:
    """Serves an ASGI application. Use as a context manager."""

    def __init__(
        self, app: Any, serve: Callable[[uvicorn.Config], uvicorn.Server] = uvicorn.Server
    ) -> None:
        """`serve` makes the server, where it is to be another class than uvicorn's own."""
        config = uvicorn.Config(
            app, host="127.0.0.1", port=0, log_level="warning", timeout_graceful_shutdown=5
        )
        self._server = serve(config)
        self._thread = threading.Thread(target=self._run, name="web-server", daemon=True)

    @property
    def port(self) -> int:
        return int(self._server.servers[0].sockets[0].getsockname()[1])

    @property
    def url(self) -> str:
        """`http://127.0.0.1:PORT`"""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> Self:
        self._thread.start()
        eventually(lambda: self._server.started or not self._thread.is_alive())
        assert self._server.started, "the web server did not start"
        return self

    def stop(self) -> None:
        """Ask it to stop, as SIGTERM does."""
        self._server.should_exit = True

    def close(self) -> None:
        self.stop()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "the web server did not stop"

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def _run(self) -> None:
        asyncio.run(self._server.serve())
