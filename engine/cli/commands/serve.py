"""``aijobs serve``: the HTTP API. Needs the extra ``aijobs[server]``."""

from __future__ import annotations

import logging
import signal
import socket
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from engine.cli import daemon
from engine.cli.errors import UsageMistake
from engine.cli.nouns import single
from engine.cli.session import Session
from engine.cli.tree import missing_library
from engine.config import notify_socket
from engine.observe.notify import Supervisor

if TYPE_CHECKING:
    from engine.http.server import EdgeServer

command = single()

_log = logging.getLogger("aijobs.daemon")


@command.command(epilog="Example: aijobs serve --port 8321")
def serve(
    ctx: typer.Context,
    host: Annotated[str, typer.Option(help="Address to listen on; beyond this machine it needs authentication.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port to listen on; 0 is any free one.")] = 8321,
    share_port: Annotated[
        bool, typer.Option("--share-port", help="Listen beside other servers that are started so; one for a core.")
    ] = False,
) -> None:
    """Serve the HTTP API until told to stop. It creates and reads jobs; others dispatch and run them.

    After a SIGTERM or Ctrl-C open requests are answered and the exit code is 0; a second signal cuts them off.
    """
    session: Session = ctx.obj
    try:
        from engine.http.server import make_server, shared_socket
    except ModuleNotFoundError as error:
        raise missing_library("serve", error) from error
    # Redis only carries hints here, so any will do and none is waited for.
    app = daemon.prepare(session, role="serve", alone=True)
    server = make_server(app, host=host, port=port, log_config=None)
    sockets = [_listening(shared_socket, host, port)] if share_port else None
    threading.Thread(target=_tell_ready, args=(server,), daemon=True).start()
    # uvicorn takes the signals while it serves and raises them once more at its end: a clean stop is no failure.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: None)
    server.run(sockets=sockets)


def _listening(listen: Callable[[str, int], socket.socket], host: str, port: int) -> socket.socket:
    try:
        return listen(host, port)
    except OSError as error:
        fix = "every server on a port is to be started with --share-port, by the same user"
        raise UsageMistake(f"serve: {host}:{port} cannot be listened on: {error.strerror}", fix=fix) from None


def _tell_ready(server: EdgeServer) -> None:
    while not server.started and not server.should_exit:
        time.sleep(0.05)
    if server.started:
        _log.info("ready", extra={"fields": {"host": server.config.host, "port": server.config.port}})
        Supervisor(notify_socket()).ready("serve")
