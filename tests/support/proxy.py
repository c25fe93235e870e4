"""A TCP wire between a client and a server that tests can cut, stall, slow down, or make lose one message.

It knows no protocol: a marker is bytes that occur in a request, such as `b"COMMIT"` or `b"EVALSHA"`.
"""

from __future__ import annotations

import select
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self

HOST = "127.0.0.1"
CHUNK = 65536
SEND_TIMEOUT_S = 10.0

#: bytes to find in a request, or a function that says yes to a request's bytes (as they come from the wire)
Marker = bytes | Callable[[bytes], bool]


@dataclass(slots=True, eq=False)
class Fault:
    """One loss to come. `happened` is set when it has come."""

    marker: Marker
    #: "answer": the server gets the request and its answer is lost; "request": the server never gets it
    loses: str
    happened: threading.Event = field(default_factory=threading.Event)

    def matches(self, request: bytes) -> bool:
        if isinstance(self.marker, bytes):
            return self.marker in request
        return self.marker(request)

    def wait(self, timeout: float = 20.0) -> None:
        """Return when the loss has happened. Raises AssertionError after `timeout` seconds."""
        assert self.happened.wait(timeout), f"no request matched {self.marker!r}"


class TcpProxy:
    """Listens on a free port and passes bytes to `target` (host, port). A context manager, or `start` and `close`."""

    def __init__(self, target: tuple[str, int]) -> None:
        self.target = target
        self.host = HOST
        self.port = 0
        self.stalled = False
        self.delay_s = 0.0
        self._lock = threading.Lock()
        self._links: set[_Link] = set()
        self._faults: list[Fault] = []
        self._listener: socket.socket | None = None
        self._acceptor: threading.Thread | None = None

    # -- life ----------------------------------------------------------------------------

    def start(self) -> Self:
        self._listen()
        return self

    def close(self) -> None:
        """Close every connection and end every thread."""
        self.cut()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.close()

    # -- what a test does ----------------------------------------------------------------

    def url(self, url: str) -> str:
        """`url` with the target's address replaced by the proxy's."""
        host, port = self.target
        assert f"{host}:{port}" in url, f"{url} does not lead to {host}:{port}"
        return url.replace(f"{host}:{port}", f"{self.host}:{self.port}")

    @property
    def connections(self) -> int:
        """How many clients are connected now."""
        return len(self._current())

    def drop_connections(self) -> None:
        """Reset every connection; new ones are welcome. Returns when they are reset."""
        for link in self._current():
            link.abort()

    def cut(self) -> None:
        """Reset every connection and refuse new ones, until `mend`. Returns when it is so."""
        self._stop_listening()
        self.drop_connections()

    def stall(self) -> None:
        """Accept connections and bytes, deliver nothing in either direction, until `mend`."""
        self.stalled = True
        self._tell_links()

    def delay(self, seconds: float) -> None:
        """Hold every piece of data for `seconds`, in both directions, until `mend`."""
        self.delay_s = seconds

    def mend(self) -> None:
        """End `cut`, `stall` and `delay`. What was stalled is delivered now."""
        self.stalled = False
        self.delay_s = 0.0
        if self._listener is None:
            self._listen()
        self._tell_links()

    def drop_answers_once(self, marker: Marker) -> Fault:
        """The next request with `marker` is served, then its answer is lost and its connection reset.

        The connection is reset when the first byte of an answer arrives, so the server has acted. (Of several
        requests pipelined in one piece, only the first is certain to be done.)
        """
        return self._arm(Fault(marker, "answer"))

    def drop_requests_once(self, marker: Marker) -> Fault:
        """The next request with `marker` does not reach the server; its connection is reset."""
        return self._arm(Fault(marker, "request"))

    # -- inner ---------------------------------------------------------------------------

    def take_fault(self, request: bytes) -> Fault | None:
        """The first armed fault this request calls for; it is spent."""
        with self._lock:
            for fault in self._faults:
                if fault.matches(request):
                    self._faults.remove(fault)
                    return fault
        return None

    def forget(self, link: _Link) -> None:
        with self._lock:
            self._links.discard(link)

    def _arm(self, fault: Fault) -> Fault:
        with self._lock:
            self._faults.append(fault)
        return fault

    def _current(self) -> list[_Link]:
        with self._lock:
            return list(self._links)

    def _tell_links(self) -> None:
        for link in self._current():
            link.wake()

    def _listen(self) -> None:
        listener = socket.socket()
        # the port is the clients' address of the server: it must survive a cut
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((self.host, self.port))
        listener.listen(128)
        self.port = listener.getsockname()[1]
        self._listener = listener
        self._acceptor = threading.Thread(target=self._accept, args=(listener,), daemon=True)
        self._acceptor.start()

    def _stop_listening(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None and self._acceptor is not None:
            # shutdown wakes the accepting thread, close alone does not
            listener.shutdown(socket.SHUT_RDWR)
            self._acceptor.join()
            listener.close()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self.target, timeout=SEND_TIMEOUT_S)
            except OSError:
                _reset(client)
                continue
            link = _Link(self, client, server)
            with self._lock:
                self._links.add(link)
            link.start()


class _Link(threading.Thread):
    """One client's connection and its continuation to the server. Only its own thread touches the sockets."""

    def __init__(self, proxy: TcpProxy, client: socket.socket, server: socket.socket) -> None:
        super().__init__(name="tcp-proxy-link", daemon=True)
        self._proxy = proxy
        self._client = client
        self._server = server
        self._lost_answer: Fault | None = None
        self._aborted = False
        self._bell, self._ringer = socket.socketpair()
        for end in (client, server):
            # a peer that never reads must not hold this thread for ever
            end.settimeout(SEND_TIMEOUT_S)

    def wake(self) -> None:
        """The proxy's state has changed: look again."""
        with suppress(OSError):
            self._ringer.send(b"!")

    def abort(self) -> None:
        """Reset both sides; returns when it is done."""
        self._aborted = True
        self.wake()
        if self is not threading.current_thread():
            self.join()

    def run(self) -> None:
        try:
            while not self._aborted and self._step():
                pass
        except OSError:
            # the peer has reset its side
            self._aborted = True
        finally:
            self._proxy.forget(self)
            for end in (self._client, self._server):
                _reset(end) if self._aborted else end.close()
            self._ringer.close()
            self._bell.close()

    def _step(self) -> bool:
        """Wait for something and pass it on. False: the connection is over."""
        ends = [] if self._proxy.stalled else [self._client, self._server]
        ready, _, _ = select.select([self._bell, *ends], [], [])
        if self._bell in ready:
            self._bell.recv(CHUNK)
            return True
        return all(self._pass_on(end) for end in ready)

    def _pass_on(self, source: socket.socket) -> bool:
        data = source.recv(CHUNK)
        if not data or self._is_lost(source, data):
            return False
        self._hold(self._proxy.delay_s)
        target = self._server if source is self._client else self._client
        if not self._aborted:
            target.sendall(data)
        return True

    def _is_lost(self, source: socket.socket, data: bytes) -> bool:
        fault = self._lost_answer
        if source is self._client:
            fault = self._proxy.take_fault(data)
            if fault is not None and fault.loses == "answer":
                self._lost_answer, fault = fault, None
        if fault is None:
            return False
        self._aborted = True
        fault.happened.set()
        return True

    def _hold(self, seconds: float) -> None:
        """Let `seconds` pass, less when the connection is aborted or the proxy mended."""
        if seconds:
            select.select([self._bell], [], [], seconds)


def _reset(peer: socket.socket) -> None:
    """Close so that the peer sees an error, not an orderly end."""
    with suppress(OSError):
        # linger for zero seconds: close sends a reset and throws away what was not sent
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()
