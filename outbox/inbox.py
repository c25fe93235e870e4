"""A foreign event is received once: every statement on ``inbox_event`` (ADR-114 D1, EW-1 to EW-5).

The row, the dedupe digest and the job are one transaction of the caller's. Whoever loses the race for a digest rolls
its job back and answers with the winner's. After its time a row counts as absent: the event is then a new one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

import sqlalchemy as sa

from outbox.base.bulk import RowInsert
from outbox.base.canonical import identity_digest
from outbox.base.clock import DatabaseClock, moment, stamp
from outbox.models import INBOX_EVENT

_C = INBOX_EVENT.c

#: How long an event is told from its repeats, in ms (X47).
KEEP_MS: Final = 7 * 86_400_000
#: Longest values, in characters; longer ones are refused, never cut (CI-4).
PLACE_CHARS: Final = 64
EVENT_ID_CHARS: Final = 256

_INSERT = RowInsert(
    INBOX_EVENT,
    [
        "id",
        "project",
        "channel_type",
        "channel_instance",
        "provider_event_id",
        "dedupe_digest",
        "job_id",
    ],
    expressions={"created_at": stamp("now_us"), "expires_at": stamp("expires_us")},
    unless_exists="dedupe_digest",
)
_digest = _C.dedupe_digest == sa.bindparam("row_digest", type_=_C.dedupe_digest.type)
_LIVE = sa.select(_C.id, _C.job_id).where(_digest, _C.expires_at > moment("now_us"))
_HOLDER = sa.select(_C.id).where(_digest).with_for_update()
_BY_ID = sa.select(_C.id, _C.job_id).where(_C.id == sa.bindparam("row_id", type_=_C.id.type))
_DROP_EXPIRED = sa.delete(INBOX_EVENT).where(_digest, _C.expires_at <= moment("now_us"))
_EXPIRED = (
    sa.select(_C.id)
    .where(_C.expires_at <= moment("now_us"))
    .order_by(_C.expires_at)
    .limit(sa.bindparam("limit"))
)
_PURGE = sa.delete(INBOX_EVENT).where(_C.id.in_(sa.bindparam("ids", expanding=True, type_=_C.id.type)))


@dataclass(frozen=True, slots=True)
class ForeignEvent:
    """Which event of which sender. The same id in another project, channel or instance is another event (EW-4)."""

    project: str
    channel_type: str
    channel_instance: str
    provider_event_id: str = field(repr=False)

    @property
    def digest(self) -> bytes:
        """What events are told apart by: exact bytes."""
        return identity_digest(
            "inbox", self.project, self.channel_type, self.channel_instance, self.provider_event_id
        )


@dataclass(frozen=True, slots=True)
class Received:
    """An event that is on record, and the job it made."""

    id: UUID
    job_id: UUID


class InboxRepository:
    """The only writer of ``inbox_event``. Methods take the caller's connection and never commit."""

    def __init__(self, clock: DatabaseClock) -> None:
        self._clock = clock

    def find(self, conn: sa.Connection, event: ForeignEvent) -> Received | None:
        """The event as it is on record; None where it is new, or its time is over."""
        values = {"row_digest": event.digest, "now_us": self._clock.us()}
        return _received(conn.execute(_LIVE, values).first())

    def stored(self, conn: sa.Connection, row_id: UUID) -> Received | None:
        """The row that was chosen this id: after a COMMIT without an answer (CI-9)."""
        return _received(conn.execute(_BY_ID, {"row_id": row_id}).first())

    def receive(
        self,
        conn: sa.Connection,
        event: ForeignEvent,
        *,
        row_id: UUID,
        job_id: UUID,
        keep_ms: int = KEEP_MS,
    ) -> bool:
        """Put the event on record with the job this transaction makes of it.

        False where another transaction was faster: the caller must roll back, job included.
        """
        now, digest = self._clock.us(), event.digest
        conn.execute(_DROP_EXPIRED, {"row_digest": digest, "now_us": now})
        row = {
            "id": row_id, "project": event.project, "channel_type": event.channel_type,
            "channel_instance": event.channel_instance, "provider_event_id": event.provider_event_id,
            "dedupe_digest": digest, "job_id": job_id,
        }  # fmt: skip
        _INSERT.execute(conn, [row], now_us=now, expires_us=self._clock.us(keep_ms))
        return bool(conn.execute(_HOLDER, {"row_digest": digest}).scalar_one() == row_id)

    def purge_expired(self, conn: sa.Connection, *, limit: int = 500) -> int:
        """Delete up to ``limit`` events whose time is over; returns how many. For upkeep."""
        ids = sorted(conn.execute(_EXPIRED, {"now_us": self._clock.us(), "limit": limit}).scalars())
        return conn.execute(_PURGE, {"ids": ids}).rowcount if ids else 0


def _received(row: Any) -> Received | None:
    return None if row is None else Received(row.id, row.job_id)
