"""A wire to Redis that can be cut: what an unreachable Redis is, seen from some processes and not from others."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Final, Self
from urllib.parse import SplitResult, parse_qs, urlsplit

_CHUNK: Final = 65_536
_HOST: Final = "127.0.0.1"


def can_relay(url: str) -> bool:
    """Whether a wire can be laid to this Redis: TLS would notice that it talks to somebody else."""
    return urlsplit(url).scheme in ("redis", "unix")


class Relay:
    """Passes bytes between its own port and the Redis of a URL. A context manager."""

    def __init__(self, url: str) -> None:
        self._target = urlsplit(url)
        self._links: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._is_cut = False
        self._listener = socket.create_server((_HOST, 0))
        self.url = _relayed(self._target, self._listener.getsockname()[1])

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, name="crashkit-relay", daemon=True).start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.cut()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def cut(self) -> None:
        """Close every connection, and every later one at once."""
        with self._lock:
            self._is_cut = True
            links, self._links = self._links, set()
        for link in links:
            _close(link)

    def mend(self) -> None:
        """Let connections through again."""
        with self._lock:
            self._is_cut = False

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                self._link(client)
            except OSError:
                _close(client)

    def _link(self, client: socket.socket) -> None:
        with self._lock:
            if self._is_cut:
                _close(client)
                return
        server = _connect(self._target)
        with self._lock:
            self._links |= {client, server}
        for source, target in ((client, server), (server, client)):
            threading.Thread(target=self._pump, args=(source, target), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(_CHUNK):
                target.sendall(data)
        with self._lock:
            self._links -= {source, target}
        _close(source)
        _close(target)


def _connect(target: SplitResult) -> socket.socket:
    if target.scheme == "unix":
        wire = socket.socket(socket.AF_UNIX)
        wire.connect(target.path)
        return wire
    return socket.create_connection((target.hostname or _HOST, target.port or 6379))


def _relayed(target: SplitResult, port: int) -> str:
    user, found, _ = target.netloc.rpartition("@")
    path = target.path
    if target.scheme == "unix":
        path = "/" + parse_qs(target.query).get("db", ["0"])[0]
    return f"redis://{user}{found}{_HOST}:{port}{path}"


def _close(wire: socket.socket) -> None:
    # shutdown wakes the thread that reads it, close alone does not
    with contextlib.suppress(OSError):
        wire.shutdown(socket.SHUT_RDWR)
    wire.close()
