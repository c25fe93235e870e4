"""Who did what to which job, event or queue: the table ``audit_log``, to which rows are only ever added."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from outbox.base.bulk import RowInsert
from outbox.base.clock import DatabaseClock, stamp
from outbox.base.ids import new_id
from outbox.base.tables import METADATA, MYSQL_TABLE, column
from outbox.base.types import BinaryUuid, UtcDateTime, ascii_text, exact_text, long_text

#: Rows a page holds at most.
PAGE_LIMIT = 500


#: One act of a person or program through an edge; written in the transaction of the act.
AUDIT_LOG = sa.Table(
    "audit_log",
    METADATA,
    column("id", BinaryUuid, primary_key=True),
    column("at", UtcDateTime),
    column("actor", exact_text(128)),
    # Where the act came in: http, cli or console.
    column("edge", ascii_text(16)),
    column("verb", ascii_text(64)),
    column("object_type", ascii_text(32)),
    column("object_id", exact_text(255)),
    column("reason", exact_text(255), nullable=True),
    # "done", or the code of the refusal.
    column("result", ascii_text(64)),
    column("request_id", exact_text(64), nullable=True),
    column("detail", long_text(), nullable=True),
    sa.Index("ix_audit_log_object", "object_type", "object_id", "id"),
    **MYSQL_TABLE,
)
_C = AUDIT_LOG.c

_INSERT = RowInsert(
    AUDIT_LOG,
    ["id", "actor", "edge", "verb", "object_type", "object_id", "reason", "result", "request_id",
     "detail"],
    expressions={"at": stamp("now_us")},
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """One act to be written down. ``detail`` holds names and numbers, never an input or an output."""

    actor: str = field(repr=False)
    edge: str
    verb: str
    object_type: str
    object_id: str
    reason: str | None = None
    result: str = "done"
    request_id: str | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)

    def row(self) -> dict[str, Any]:
        """The values of the insert."""
        detail = (
            json.dumps(self.detail, ensure_ascii=False, sort_keys=True) if self.detail else None
        )
        return {
            "id": new_id(), "actor": self.actor, "edge": self.edge, "verb": self.verb,
            "object_type": self.object_type, "object_id": self.object_id[:255],
            "reason": self.reason[:255] if self.reason else None, "result": self.result,
            "request_id": self.request_id, "detail": detail,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One act as it was written down; ``at`` is UTC."""

    id: UUID
    at: datetime
    actor: str = field(repr=False)
    edge: str
    verb: str
    object_type: str
    object_id: str
    reason: str | None
    result: str
    request_id: str | None
    detail: Mapping[str, Any]


class AuditRepository:
    """Adds to ``audit_log`` and reads it; there is no way to change or delete a row."""

    def __init__(self, clock: DatabaseClock) -> None:
        self._clock = clock

    def append(self, conn: sa.Connection, *acts: Act) -> None:
        """Write acts down in the caller's transaction: they stand if and only if what was done stands."""
        if acts:
            _INSERT.write(conn, [act.row() for act in acts], now_us=self._clock.us())

    def page(
        self,
        conn: sa.Connection,
        *,
        object_type: str | None = None,
        object_id: str | None = None,
        actor: str | None = None,
        verb: str | None = None,
        before: UUID | None = None,
        limit: int = 50,
    ) -> list[AuditEntry]:
        """Acts, newest first, below the id ``before``."""
        wanted = {"object_type": object_type, "object_id": object_id, "actor": actor, "verb": verb}
        conditions = [_C[name] == value for name, value in wanted.items() if value is not None]
        if before is not None:
            conditions.append(_C.id < before)
        query = sa.select(AUDIT_LOG).where(*conditions).order_by(_C.id.desc())
        return [_entry(row) for row in conn.execute(query.limit(min(limit, PAGE_LIMIT)))]


def _entry(row: Any) -> AuditEntry:
    values = dict(row._mapping)
    return AuditEntry(**values | {"detail": json.loads(values["detail"] or "{}")})
