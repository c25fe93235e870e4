"""The hint after a commit: there is something to dispatch to a queue. It may be lost, so it is never waited for."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from outbox.errors import TransportError
from outbox.transports.base import Transport

#: At least this much time between two hints, in seconds: many commits need no more than one.
_GAP_S = 0.02

#: How long closing waits for the last hint, in seconds.
_LAST_HINT_S = 2.0

_log = logging.getLogger("aijobs.wake")


def dispatcher_channel(queue: str) -> str:
    """The channel on which those wait who dispatch to ``queue``."""
    return f"dispatcher.{queue}"


class WakeHint:
    """Sends hints from a thread of its own, coalesced; a caller only names queues and goes on."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._queues: set[str] = set()
        self._asked = threading.Event()
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def send(self, queues: Iterable[str]) -> None:
        """Ask for a hint to the dispatchers of ``queues`` soon. Never raises and never waits."""
        with self._lock:
            self._queues.update(queues)
            if not self._closed.is_set() and (self._thread is None or not self._thread.is_alive()):
                # The first hint, or the first of a process that was forked from one with a thread.
                self._start()
        self._asked.set()

    def _start(self) -> None:
        thread = threading.Thread(target=self._run, name="aijobs-wake", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            # A process without threads to spare, or at its end. The job is committed: polling covers it.
            _log.debug("no hint sent: no thread can be started")
        else:
            self._thread = thread

    def sender(self, queues: Iterable[str]) -> Callable[[], None]:
        """:meth:`send` for ``queues``, to be called later; two senders of the same are equal."""
        return _Sender(self, frozenset(queues))

    def close(self) -> None:
        """Stop the thread, which sends what it was asked for before: a program may end right after its last job.

        Waits a moment for that. Whoever closes the transport next must not do so under its hands.
        """
        self._closed.set()
        self._asked.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_LAST_HINT_S)

    def _run(self) -> None:
        while not self._closed.is_set():
            self._asked.wait()
            self._asked.clear()
            self._tell()
            self._closed.wait(_GAP_S)
        self._tell()

    def _tell(self) -> None:
        with self._lock:
            queues, self._queues = self._queues, set()
        try:
            for queue in queues:
                self._transport.wake(dispatcher_channel(queue))
        except TransportError as error:
            # Polling covers them.
            _log.debug("no hint sent: %s", error.code)


@dataclass(frozen=True)
class _Sender:
    hint: WakeHint
    queues: frozenset[str]

    def __call__(self) -> None:
        self.hint.send(self.queues)
