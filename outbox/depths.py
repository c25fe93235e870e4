"""How deep the queues are, as far as one dispatcher has to know to keep below their high-water mark.

A queue that was far from its mark a moment ago need not be asked again before each round: a round at low load
is a job that somebody waits for.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from outbox.transports.base import Transport

#: How long an answer of the transport counts, in s.
FRESH_S = 1.0
#: What a dispatcher adds without a look stays below this part of the mark, so that what four of them do still fits.
_FAR = 4


class Depths:
    """What the transport said of each queue, and what was put there since. Safe for rounds that run in parallel."""

    def __init__(
        self, transport: Transport, *, mark: int, batch: int, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        """``batch``: how many tickets one round adds to a queue at most."""
        self._transport = transport
        self._far = mark // _FAR - batch
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._known: dict[str, _Look] = {}

    def of(self, queues: Sequence[str]) -> dict[str, int]:
        """The depth of each of ``queues``; exact where it matters. Raises ``TransportUnavailable``."""
        now = self._monotonic()
        with self._lock:
            known = {queue: look.depth for queue in queues if (look := self._far_from_mark(queue, now))}
        if len(known) == len(queues):
            return known
        found = self._transport.depth(queues)
        depths = {queue: found.get(queue, 0) for queue in queues}
        with self._lock:
            self._known.update({queue: _Look(depth, now) for queue, depth in depths.items()})
        return depths

    def _far_from_mark(self, queue: str, now: float) -> _Look | None:
        look = self._known.get(queue)
        return look if look and look.depth <= self._far and now - look.at < FRESH_S else None

    def add(self, queue: str, tickets: int) -> None:
        """So many were put on ``queue``."""
        with self._lock:
            look = self._known.get(queue)
            if look:
                self._known[queue] = look._replace(depth=look.depth + tickets)

    def forget(self) -> None:
        """The transport failed: it is asked before anything is claimed for it again."""
        with self._lock:
            self._known.clear()


class _Look(NamedTuple):
    """A depth, and when it was asked for, in monotonic seconds."""

    depth: int
    at: float
