"""The stored result: canonical bytes after redaction, and their hash, written in the final transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

import sqlalchemy as sa

from engine.lifecycle.models import AI_JOB_OUTPUT
from outbox.base.bulk import RowInsert
from outbox.base.clock import DatabaseClock, moment, stamp

_C = AI_JOB_OUTPUT.c
_DAY_MS = 86_400_000

_INSERT = RowInsert(
    AI_JOB_OUTPUT,
    ["job_id", "content", "output_hash", "schema_version", "redaction_version"],
    expressions={"created_at": stamp("now_us"), "expires_at": stamp("expires_us")},
    bulky="content",
)
_ids = sa.bindparam("ids", expanding=True, type_=_C.job_id.type)
_LOAD = sa.select(_C.content).where(_C.job_id == sa.bindparam("job_id", type_=_C.job_id.type))
_EXPIRED = (
    sa.select(_C.job_id)
    .where(_C.expires_at < moment("now_us"), _C.content.is_not(None))
    .limit(sa.bindparam("limit"))
)
_PURGE = sa.update(AI_JOB_OUTPUT).where(_C.job_id.in_(_ids), _C.content.is_not(None)).values(content=None)


@dataclass(frozen=True, slots=True)
class Output:
    """What a job produced, ready to be stored; ``digest`` is SHA-256 over ``content``."""

    content: bytes
    digest: bytes
    schema_version: str
    redaction_version: str
    retention_days: int


class OutputRepository:
    """The only writer of ``ai_job_output``."""

    def __init__(self, clock: DatabaseClock) -> None:
        self._clock = clock

    def insert(self, conn: sa.Connection, outputs: Sequence[tuple[UUID, Output]]) -> None:
        """Store outputs in the transaction that ends their jobs."""
        rows = [
            {
                "job_id": job_id, "content": o.content, "output_hash": o.digest,
                "schema_version": o.schema_version, "redaction_version": o.redaction_version,
                "expires_us": self._clock.us(o.retention_days * _DAY_MS),
            }
            for job_id, o in outputs
        ]  # fmt: skip
        _INSERT.write(conn, rows, now_us=self._clock.us())

    def load(self, conn: sa.Connection, job_id: UUID) -> bytes | None:
        """The output's canonical bytes; None when there is none or it has expired."""
        content = conn.execute(_LOAD, {"job_id": job_id}).scalar_one_or_none()
        return None if content is None else bytes(content)

    def purge_expired(self, conn: sa.Connection, *, limit: int = 200) -> int:
        """Drop the content of expired outputs; the hash stays."""
        ids = sorted(conn.execute(_EXPIRED, {"now_us": self._clock.us(), "limit": limit}).scalars())
        return conn.execute(_PURGE, {"ids": ids}).rowcount if ids else 0
