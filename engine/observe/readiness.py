"""Is this process ready? Tied to what it can really do: a query answered, and rounds that were made lately.

Redis is told and never decides: creating jobs goes on without it (design 1).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Final

import sqlalchemy as sa

from outbox.base.db import UnitOfWork
from outbox.errors import TransportError
from outbox.transports.base import Transport
from registry.errors import AiJobsError

#: An answer is good for this long, in seconds: probes come often, from many sides.
_GOOD_S: Final = 1.0
#: How long a loop may take for a round, beside its pause, before it counts as stuck; in seconds.
SILENT_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether to send work here, and what each check found: one word, no address and no path."""

    ready: bool
    checks: Mapping[str, str] = field(default_factory=dict)


class Progress:
    """Rounds of a process's loops: each says when it made one, and how long it may stay silent."""

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._marks: dict[str, tuple[float, float]] = {}

    def mark(self, loop: str, *, within_s: float) -> None:
        """``loop`` has made a round, and will make the next one within so many seconds."""
        self._marks[loop] = (self._monotonic(), within_s)

    def rest(self, loop: str) -> None:
        """``loop`` has nothing to do for now."""
        self._marks.pop(loop, None)

    def watched(
        self, loop: str, round_: Callable[[], bool], *, interval_ms: int, silent_s: float = SILENT_S
    ) -> Callable[[], bool]:
        """``round_`` of a loop that turns every ``interval_ms``, noted whenever it has come to its end.

        Also when Redis was away: that is waited for, and decides nothing. Another error is no progress.
        """
        within_s = interval_ms / 1000 + silent_s
        self.mark(loop, within_s=within_s)

        def turn() -> bool:
            try:
                more = round_()
            except TransportError:
                self.mark(loop, within_s=within_s)
                raise
            self.mark(loop, within_s=within_s)
            return more

        return turn

    async def beat(self, loop: str) -> None:
        """Note that the event loop turns, as a task of its own: a handler that blocks it keeps everybody waiting."""
        while True:
            self.mark(loop, within_s=SILENT_S)
            await asyncio.sleep(SILENT_S / 30)

    def stalled(self) -> list[str]:
        """Loops that are overdue."""
        now = self._monotonic()
        marks = list(self._marks.items())
        return sorted(name for name, (at, within) in marks if now - at > within)


class ReadinessCheck:
    """Asks the database and Redis, at most once a second."""

    def __init__(
        self,
        *,
        uow: UnitOfWork,
        transport: Callable[[], Transport],
        queues: Sequence[str],
        schema_is_current: Callable[[], bool],
        progress: Progress | None = None,
    ) -> None:
        self._uow = uow
        self._transport = transport
        self._queues = queues
        self._asks_schema = schema_is_current
        self._progress = progress
        self._lock = Lock()
        self._found: tuple[float, Readiness] | None = None
        self._schema_is_current = False

    def __call__(self) -> Readiness:
        """How things stand; blocks for as long as the database takes."""
        with self._lock:
            now = time.monotonic()
            if self._found is None or now - self._found[0] > _GOOD_S:
                self._found = (now, self._look())
            return self._found[1]

    def _look(self) -> Readiness:
        stalled = self._progress.stalled() if self._progress else []
        checks = {"database": self._database(), "redis": self._redis()}
        checks |= {f"loop {name}": "stalled" for name in stalled}
        return Readiness(checks["database"] == "ok" and not stalled, checks)

    def _database(self) -> str:
        try:
            self._uow.read(lambda conn: conn.execute(sa.select(sa.literal(1))).scalar_one())
            if not self._schema_is_current:
                # Asked until it is so once; a running process does not see migrations go backwards.
                self._schema_is_current = self._asks_schema()
        except (AiJobsError, sa.exc.SQLAlchemyError):
            return "unavailable"
        return "ok" if self._schema_is_current else "schema out of date"

    def _redis(self) -> str:
        try:
            self._transport().depth(self._queues)
        except TransportError:
            return "unavailable"
        return "ok"

    def body(self) -> tuple[int, dict[str, Any]]:
        """The status and body of ``/readyz``."""
        found = self()
        word = "ready" if found.ready else "not ready"
        return (200 if found.ready else 503), {"status": word, "checks": dict(found.checks)}
