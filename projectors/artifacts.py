"""Which business rows came from which job: the table ``ai_job_artifact`` and every statement on it."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import sqlalchemy as sa

from outbox.base.bulk import RowInsert
from outbox.base.clock import DatabaseClock, stamp
from outbox.base.tables import METADATA, MYSQL_TABLE, column
from outbox.base.types import BinaryUuid, UtcDateTime, ascii_text, exact_text
from projectors.errors import ProjectionResultInvalid
from projectors.protocol import ArtifactRef

#: Lengths of the columns below, checked in code because SQLite checks none (DB-6).
TYPE_CHARS = 64
ID_CHARS = 255
_ORDINALS = range(-(2**31), 2**31)


#: One business row that a job made. The key is the triple; the ordinal only orders (X88).
AI_JOB_ARTIFACT = sa.Table(
    "ai_job_artifact",
    METADATA,
    column("job_id", BinaryUuid, primary_key=True),
    column("artifact_type", ascii_text(TYPE_CHARS), primary_key=True),
    column("artifact_id", exact_text(ID_CHARS), primary_key=True),
    column("ordinal", sa.Integer),
    column("created_at", UtcDateTime),
    **MYSQL_TABLE,
)
_C = AI_JOB_ARTIFACT.c

_EXISTING = (
    sa.select(_C.artifact_type, _C.artifact_id, _C.ordinal)
    .where(_C.job_id == sa.bindparam("of_job", type_=_C.job_id.type))
    .order_by(_C.ordinal, _C.artifact_type, _C.artifact_id)
)
_INSERT = RowInsert(
    AI_JOB_ARTIFACT,
    ["job_id", "artifact_type", "artifact_id", "ordinal"],
    expressions={"created_at": stamp("now_us")},
)


def existing(conn: sa.Connection, job_id: UUID) -> list[ArtifactRef]:
    """The artifacts of a job in their order; empty when it has none. Reads in the caller's transaction."""
    return [ArtifactRef(*row) for row in conn.execute(_EXISTING, {"of_job": job_id})]


def record(
    conn: sa.Connection, job_id: UUID, refs: Sequence[ArtifactRef], clock: DatabaseClock
) -> list[ArtifactRef]:
    """Store ``refs`` as artifacts of the job and return all that it now has, in their order.

    A reference that is there already stays as it is. It is looked for first and never learned from a
    constraint error, which would cost the transaction (PC-2); so the caller must hold the lock of the
    job's row. Raises :class:`ProjectionResultInvalid`.
    """
    _refuse_malformed(refs)
    known = {(ref.artifact_type, ref.artifact_id) for ref in existing(conn, job_id)}
    new = [ref for ref in refs if (ref.artifact_type, ref.artifact_id) not in known]
    if new:
        rows = [
            {
                "job_id": job_id,
                "artifact_type": ref.artifact_type,
                "artifact_id": ref.artifact_id,
                "ordinal": ref.ordinal,
            }
            for ref in new
        ]
        _INSERT.execute(conn, rows, now_us=clock.us())
    return existing(conn, job_id)


def _refuse_malformed(refs: Sequence[ArtifactRef]) -> None:
    """Refuse alike on every database what some of them could not keep apart."""
    seen: set[tuple[str, str]] = set()
    for place, ref in enumerate(refs):
        if not isinstance(ref, ArtifactRef):
            raise ProjectionResultInvalid(f"artifact {place} is a {type(ref).__name__}")
        if not _is_type(ref.artifact_type):
            why = f"must be 1 to {TYPE_CHARS} printable ASCII characters without spaces"
            raise ProjectionResultInvalid(f"artifact {place}: artifact_type {why}")
        if not _is_id(ref.artifact_id):
            # MySQL compares text without its trailing spaces
            why = f"must be 1 to {ID_CHARS} characters, text without spaces at its ends"
            raise ProjectionResultInvalid(f"artifact {place}: artifact_id {why}")
        if type(ref.ordinal) is not int or ref.ordinal not in _ORDINALS:
            raise ProjectionResultInvalid(f"artifact {place}: ordinal must be a 32-bit integer")
        if (ref.artifact_type, ref.artifact_id) in seen:
            raise ProjectionResultInvalid(f"artifact {place} names the same row as one before it")
        seen.add((ref.artifact_type, ref.artifact_id))


def _is_type(text: object) -> bool:
    if not isinstance(text, str) or not 1 <= len(text) <= TYPE_CHARS:
        return False
    return text.isascii() and text.isprintable() and " " not in text


def _is_id(text: object) -> bool:
    return (
        isinstance(text, str)
        and 1 <= len(text) <= ID_CHARS
        and text == text.strip()
        and "\x00" not in text
        and text.isprintable()
    )
