"""Which queues an operator has paused: read from the database every few seconds, remembered in between."""

from __future__ import annotations

import threading
import time

from engine.lifecycle.queues import QueueControlRepository
from outbox.base.db import UnitOfWork
from outbox.base.errors import DatabaseError

#: How long an answer is good for, in s: a pause and a resume show within this time.
PERIOD_S = 2.0


class Pauses:
    """Answers for all fetchers of a process. Safe to use from their threads."""

    def __init__(self, uow: UnitOfWork, control: QueueControlRepository) -> None:
        self._uow = uow
        self._control = control
        self._lock = threading.Lock()
        self._names: frozenset[str] = frozenset()
        self._read_at = float("-inf")

    def is_paused(self, queue: str) -> bool:
        """Whether ``queue`` hands out no work. While the database is away the last answer stands."""
        with self._lock:
            if time.monotonic() - self._read_at > PERIOD_S:
                self._refresh()
            return queue in self._names

    def was_paused(self, queue: str) -> bool:
        """What the last :meth:`is_paused` found, without asking again."""
        return queue in self._names

    def _refresh(self) -> None:
        self._read_at = time.monotonic()
        try:
            self._names = frozenset(self._uow.read(self._control.paused))
        except DatabaseError:
            # The claim that follows meets the same trouble and says so.
            return
