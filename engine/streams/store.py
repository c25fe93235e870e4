"""Every statement on ``stream_chunk``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

import sqlalchemy as sa

from engine.streams.models import STREAM_CHUNK
from outbox.base.bulk import RowInsert
from outbox.base.clock import DatabaseClock, moment, stamp

_C = STREAM_CHUNK.c

#: Pieces that a reader takes at once.
READ_LIMIT = 500

_INSERT = RowInsert(
    STREAM_CHUNK, ["job_id", "epoch", "seq", "content"], expressions={"created_at": stamp("now_us")}
)

_job = _C.job_id == sa.bindparam("of_job", type_=_C.job_id.type)
_AFTER = (
    sa.select(_C.epoch, _C.seq, _C.content)
    .where(
        _job,
        sa.or_(
            _C.epoch > sa.bindparam("epoch"),
            sa.and_(_C.epoch == sa.bindparam("epoch"), _C.seq > sa.bindparam("seq")),
        ),
    )
    .order_by(_C.epoch, _C.seq)
    .limit(sa.bindparam("limit"))
)
_OLD = (
    sa.select(_C.job_id, _C.epoch, _C.seq)
    .where(_C.created_at < moment("before_us"))
    .order_by(_C.created_at)
    .limit(sa.bindparam("limit"))
)
_DROP = sa.delete(STREAM_CHUNK).where(
    _job, _C.epoch == sa.bindparam("of_epoch"), _C.seq == sa.bindparam("of_seq")
)


@dataclass(frozen=True, slots=True)
class Piece:
    """Some text of the answer that the claim ``epoch`` is making."""

    epoch: int
    seq: int
    text: str = field(repr=False)


class StreamStore:
    """The only writer of ``stream_chunk``. Methods take the caller's connection."""

    def __init__(self, clock: DatabaseClock) -> None:
        self._clock = clock

    def append(self, conn: sa.Connection, job_id: UUID, pieces: Sequence[Piece]) -> None:
        """Store ``pieces``. They are not fenced: a late one has a low epoch, and readers pass it over."""
        rows = [
            {"job_id": job_id, "epoch": p.epoch, "seq": p.seq, "content": p.text} for p in pieces
        ]
        if rows:
            _INSERT.execute(conn, rows, now_us=self._clock.us())

    def after(
        self,
        conn: sa.Connection,
        job_id: UUID,
        epoch: int = 0,
        seq: int = 0,
        limit: int = READ_LIMIT,
    ) -> list[Piece]:
        """The pieces behind (``epoch``, ``seq``), in order."""
        place = {"of_job": job_id, "epoch": epoch, "seq": seq, "limit": limit}
        return [Piece(*row) for row in conn.execute(_AFTER, place)]

    def purge(self, conn: sa.Connection, *, older_ms: int, limit: int = 500) -> int:
        """Delete up to ``limit`` pieces stored more than ``older_ms`` ago; returns how many. For upkeep."""
        found = conn.execute(_OLD, {"before_us": self._clock.us(-older_ms), "limit": limit}).all()
        keys = [{"of_job": r.job_id, "of_epoch": r.epoch, "of_seq": r.seq} for r in sorted(found)]
        if keys:
            conn.execute(_DROP, keys)
        return len(keys)
