"""The stored input. Built before the transaction, inserted in it, loaded by RESOLVE, purged after the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from engine.lifecycle.models import AI_JOB, AI_JOB_SNAPSHOT
from outbox.base.bulk import RowInsert
from outbox.base.clock import DatabaseClock, moment, shifted, stamp
from registry.job import FINAL_STATUSES

_C = AI_JOB_SNAPSHOT.c
_DAY_MS = 86_400_000

_INSERT = RowInsert(
    AI_JOB_SNAPSHOT,
    ["job_id", "content", "content_hash", "schema_version", "redaction_version"],
    expressions={"created_at": stamp("now_us"), "expires_at": stamp("expires_us")},
    bulky="content",
)

_ids = sa.bindparam("ids", expanding=True, type_=_C.job_id.type)

_LOAD = sa.select(
    _C.job_id, _C.content, _C.content_hash, _C.schema_version, _C.redaction_version,
).where(_C.job_id.in_(_ids))  # fmt: skip

_EXPIRED = (
    sa.select(_C.job_id)
    .join(AI_JOB, AI_JOB.c.id == _C.job_id)
    .where(
        # The first condition bounds the walk by its index. Days are counted from the end of the job: until then
        # nobody could have retried it.
        _C.expires_at < moment("now_us"),
        shifted(_C.expires_at, since=_C.created_at, until=AI_JOB.c.finished_at) < moment("now_us"),
        _C.content.is_not(None),
        AI_JOB.c.lifecycle_status.in_([status.value for status in FINAL_STATUSES]),
    )
    .limit(sa.bindparam("limit"))
)

_PURGE = sa.update(AI_JOB_SNAPSHOT).where(_C.job_id.in_(_ids), _C.content.is_not(None)).values(content=None)


# Not frozen: a frozen one costs four times as much to make, and a call makes hundreds.
@dataclass(slots=True)
class Snapshot:
    """A job's input as canonical bytes; ``content`` is None once it has been purged."""

    job_id: UUID
    content: bytes | None
    content_hash: bytes
    schema_version: str
    redaction_version: str


class SnapshotRepository:
    """The only writer of ``ai_job_snapshot``."""

    def __init__(self, clock: DatabaseClock) -> None:
        self._clock = clock

    def insert(self, conn: sa.Connection, snapshots: Sequence[tuple[Snapshot, int]]) -> None:
        """Store each snapshot with its days of retention, in the transaction that creates its job."""
        rows = [
            {
                "job_id": s.job_id, "content": s.content, "content_hash": s.content_hash,
                "schema_version": s.schema_version, "redaction_version": s.redaction_version,
                "expires_us": self._clock.us(days * _DAY_MS),
            }
            for s, days in snapshots
        ]  # fmt: skip
        _INSERT.write(conn, rows, now_us=self._clock.us())

    def load(self, conn: sa.Connection, job_ids: Sequence[UUID]) -> dict[UUID, Snapshot]:
        """The snapshots of ``job_ids`` that exist."""
        if not job_ids:
            return {}
        return {row.job_id: _snapshot(row) for row in conn.execute(_LOAD, {"ids": list(job_ids)})}

    def purge_expired(self, conn: sa.Connection, *, limit: int = 200) -> int:
        """Drop the content of snapshots whose jobs ended their days of retention ago; the hash stays (X86)."""
        ids = sorted(conn.execute(_EXPIRED, {"now_us": self._clock.us(), "limit": limit}).scalars())
        return conn.execute(_PURGE, {"ids": ids}).rowcount if ids else 0


def _snapshot(row: Any) -> Snapshot:
    content = None if row.content is None else bytes(row.content)
    return Snapshot(row.job_id, content, bytes(row.content_hash), row.schema_version, row.redaction_version)
