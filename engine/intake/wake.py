"""The hint after a commit: there is something to dispatch. It may be lost, so it is never waited for."""

from __future__ import annotations

import logging
import threading

from outbox.errors import TransportError
from outbox.transports.base import Transport

#: The channel that dispatchers wait on.
DISPATCHER_CHANNEL = "dispatcher"
#: At least this much time between two hints, in seconds: many commits need no more than one.
_GAP_S = 0.02

#: How long closing waits for a hint that is being sent, in seconds.
_LAST_HINT_S = 2.0

_log = logging.getLogger("aijobs.wake")


class WakeHint:
    """Sends hints from a thread of its own, coalesced; a caller only sets a flag and goes on."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._pending = threading.Event()
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def send(self) -> None:
        """Ask for a hint soon. Never raises and never waits."""
        self._pending.set()
        if self._thread is None:
            self._start()

    def close(self) -> None:
        """Stop the thread; hints not yet sent are dropped, polling covers them.

        Waits a moment for a hint that is being sent: whoever closes the transport next must not do so under
        its hands.
        """
        self._closed.set()
        self._pending.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_LAST_HINT_S)

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="aijobs-wake", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while not self._closed.is_set():
            self._pending.wait()
            self._pending.clear()
            if self._closed.is_set():
                return
            try:
                self._transport.wake(DISPATCHER_CHANNEL)
            except TransportError as error:
                _log.debug("no hint sent: %s", error.code)
            self._closed.wait(_GAP_S)
