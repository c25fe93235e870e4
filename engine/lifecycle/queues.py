"""Paused queues: the table ``queue_control`` and every statement on it.

A paused queue takes new jobs and tickets, and hands none out; what runs goes on. A pause with a time ends
by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

import sqlalchemy as sa

from outbox.base.bulk import RowInsert
from outbox.base.clock import DatabaseClock, moment, stamp
from outbox.base.tables import METADATA, MYSQL_TABLE, column
from outbox.base.types import UtcDateTime, ascii_text, exact_text

#: One row per paused queue; no row means that it is open.
QUEUE_CONTROL = sa.Table(
    "queue_control",
    METADATA,
    column("name", ascii_text(32), primary_key=True),
    column("paused_by", exact_text(128)),
    column("reason", exact_text(255)),
    column("paused_at", UtcDateTime),
    column("paused_until", UtcDateTime, nullable=True),
    **MYSQL_TABLE,
)
_C = QUEUE_CONTROL.c


_INSERT = RowInsert(
    QUEUE_CONTROL,
    ["name", "paused_by", "reason"],
    expressions={"paused_at": stamp("now_us")},
    unless_exists="name",
)
_until = sa.case(
    (sa.bindparam("open_end", type_=sa.Integer()) == 1, sa.null()), else_=stamp("until_us")
)
_UPDATE = (
    sa.update(QUEUE_CONTROL)
    .where(_C.name == sa.bindparam("queue"))
    .values(
        paused_by=sa.bindparam("by"),
        reason=sa.bindparam("why"),
        paused_at=stamp("now_us"),
        paused_until=_until,
    )
)
_RESUME = sa.delete(QUEUE_CONTROL).where(_C.name == sa.bindparam("queue"))
_PAUSED = sa.select(QUEUE_CONTROL).where(
    sa.or_(_C.paused_until.is_(None), _C.paused_until > moment("now_us"))
)


@dataclass(frozen=True, slots=True)
class QueuePause:
    """Who paused a queue, why, since when and until when (None: until it is resumed). UTC."""

    name: str
    paused_by: str = field(repr=False)
    reason: str
    paused_at: datetime
    paused_until: datetime | None


class QueueControlRepository:
    """The only writer of ``queue_control``. Methods take the caller's connection and never commit."""

    def __init__(self, clock: DatabaseClock) -> None:
        self._clock = clock

    def pause(
        self, conn: sa.Connection, name: str, *, by: str, reason: str, for_ms: int | None = None
    ) -> None:
        """Pause a queue, or give its pause another reason and end; ``for_ms`` None is until it is resumed."""
        row = {"name": name, "paused_by": by, "reason": reason[:255]}
        _INSERT.execute(conn, [row], now_us=self._clock.us())
        conn.execute(_UPDATE, {
            "queue": name, "by": by, "why": reason[:255], "now_us": self._clock.us(),
            "open_end": int(for_ms is None), "until_us": self._clock.us(for_ms or 0),
        })  # fmt: skip

    def resume(self, conn: sa.Connection, name: str) -> bool:
        """Open a queue; False where it was not paused."""
        was_paused = name in self.paused(conn)
        conn.execute(_RESUME, {"queue": name})
        return was_paused

    def paused(self, conn: sa.Connection) -> dict[str, QueuePause]:
        """The queues that are paused now, by name. One small query: workers ask it every few seconds."""
        rows = conn.execute(_PAUSED, {"now_us": self._clock.us()})
        return {row.name: QueuePause(**row._mapping) for row in rows}
