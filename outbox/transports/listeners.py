"""Who listens inside this process: what the in-memory transport tells of ended jobs."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from uuid import UUID

from outbox.transports.base import STOP_NOTICED_S, Stopped, never


class Listener:
    """See :class:`outbox.transports.base.EndedJobs`."""

    def __init__(self, listeners: Listeners) -> None:
        self._listeners = listeners
        self._changed = threading.Condition()
        self._heard: set[UUID] = set()

    def wait(self, timeout_ms: int, stopped: Stopped = never) -> frozenset[UUID]:
        """See :meth:`EndedJobs.wait`."""
        deadline = time.monotonic() + timeout_ms / 1000
        with self._changed:
            while not self._heard and not stopped():
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    break
                self._changed.wait(left_s if stopped is never else min(left_s, STOP_NOTICED_S))
            heard, self._heard = frozenset(self._heard), set()
            return heard

    def hear(self, job_ids: Iterable[UUID]) -> None:
        """Note ``job_ids`` and wake whoever waits."""
        with self._changed:
            self._heard.update(job_ids)
            self._changed.notify_all()

    def close(self) -> None:
        """See :meth:`EndedJobs.close`."""
        self._listeners.remove(self)


class Listeners:
    """Everybody who listens."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all: tuple[Listener, ...] = ()

    def add(self) -> Listener:
        """Somebody who hears of everything from now on."""
        listener = Listener(self)
        with self._lock:
            self._all = (*self._all, listener)
        return listener

    def remove(self, listener: Listener) -> None:
        """Tell ``listener`` no more."""
        with self._lock:
            self._all = tuple(other for other in self._all if other is not listener)

    def tell(self, job_ids: Iterable[UUID]) -> None:
        """Tell everybody; nothing is done where nobody listens."""
        if self._all:
            told = set(job_ids)
            for listener in self._all:
                listener.hear(told)
