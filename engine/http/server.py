"""``aijobs serve``: the edge under uvicorn. Closed by default: not beyond this machine without authentication."""

from __future__ import annotations

import socket
from typing import Any

import uvicorn
from fastapi import FastAPI

from engine.app import AiJobApp
from engine.http.app import create_http_app
from engine.http.edge import Edge
from engine.http.security import refuse_exposure

#: Time for open requests after the first signal, in seconds; streams end at once and resume elsewhere.
GRACE_S = 20


class EdgeServer(uvicorn.Server):
    """uvicorn that lets waiting requests and streams go when it is asked to stop."""

    def __init__(self, config: uvicorn.Config, edge: Edge) -> None:
        super().__init__(config)
        self._edge = edge

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer who waits, then wait for open requests."""
        self._edge.close()
        await super().shutdown(sockets)


def make_server(
    app: AiJobApp,
    *,
    host: str = "127.0.0.1",
    port: int = 8321,
    api: FastAPI | None = None,
    **options: Any,
) -> EdgeServer:
    """A server for ``app`` on ``host`` and ``port`` (0: any free one), not started yet.

    ``api`` is what :func:`~engine.http.app.create_http_app` made, where the default is not enough; ``options`` go to
    ``uvicorn.Config``. Raises :class:`~engine.errors.SettingsError` for an address beyond this machine without
    authentication.
    """
    api = api or create_http_app(app)
    edge: Edge = api.state.edge
    refuse_exposure(edge.gate, host)
    settings: dict[str, Any] = {
        "server_header": False,
        "timeout_graceful_shutdown": GRACE_S,
        "log_level": "info",
        # Queries name users, and no user stands in a log (design 1).
        "access_log": False,
    }
    return EdgeServer(uvicorn.Config(api, host=host, port=port, **settings | options), edge)


def shared_socket(host: str, port: int) -> socket.socket:
    """A socket for a server that stands beside others on one port; the kernel deals the connections out to them.

    They are processes of one user, each started by itself, so that one may go while the others stay. Raises
    ``OSError``.
    """
    places = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    family, kind, protocol, _, address = places[0]
    found = socket.socket(family, kind, protocol)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        found.bind(address)
    except OSError:
        found.close()
        raise
    return found


def serve(app: AiJobApp, *, host: str = "127.0.0.1", port: int = 8321, **options: Any) -> None:
    """Serve until SIGINT or SIGTERM. Raises as :func:`make_server`."""
    make_server(app, host=host, port=port, **options).run()
