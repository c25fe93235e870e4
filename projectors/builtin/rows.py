"""What the built-in projectors share: one business row per item of the output, owned by the job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar
from uuid import UUID

import sqlalchemy as sa
from pydantic import BaseModel
from sqlalchemy.orm import Mapped, Session, mapped_column

from outbox.base.bulk import RowInsert
from outbox.base.db import MYSQL_TABLE
from outbox.base.ids import new_id
from outbox.base.types import BinaryUuid, exact_text, long_text
from projectors.errors import ProjectionOutputMismatch
from projectors.protocol import ArtifactRef
from registry.job import JobView


class OwnedRow:
    """Columns of every built-in business table: whose row it is, what it is about, where it came from."""

    id: Mapped[UUID] = mapped_column(BinaryUuid, primary_key=True, sort_order=-1)
    job_id: Mapped[UUID] = mapped_column(BinaryUuid, sort_order=-1)
    #: Place in the output, from 0; (job, ordinal) is unique, so no job can leave its rows twice.
    ordinal: Mapped[int] = mapped_column(sa.Integer, sort_order=-1)
    user_id: Mapped[str] = mapped_column(exact_text(128), sort_order=-1)
    target_type: Mapped[str] = mapped_column(exact_text(64), sort_order=-1)
    target_id: Mapped[str] = mapped_column(exact_text(255), sort_order=-1)
    #: The passage of the input that proves it, where there is one.
    source: Mapped[str | None] = mapped_column(long_text(), sort_order=1)


def owned_table(name: str) -> tuple[Any, ...]:
    """``__table_args__`` of a table of :class:`OwnedRow`."""
    return (
        sa.UniqueConstraint("job_id", "ordinal"),
        sa.Index(f"ix_{name}_user", "user_id", "id"),
        MYSQL_TABLE,
    )


class RowProjector:
    """Writes one row per item; a repeated projection of a job returns its rows and writes nothing."""

    key: ClassVar[str]
    artifact_type: ClassVar[str]
    table: ClassVar[sa.Table]

    def __init__(self) -> None:
        self._insert = RowInsert(self.table, [column.name for column in self.table.columns])

    def items(self, output: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        """The columns that the kind of row adds, for each item; reads members with :func:`member`."""
        raise NotImplementedError

    def project(self, session: Session, job: JobView, output: BaseModel) -> Sequence[ArtifactRef]:
        """See :class:`~projectors.protocol.ResultProjector`."""
        conn = session.connection()
        return self._existing(conn, job.id) or self._write(conn, job, output)

    def _existing(self, conn: sa.Connection, job_id: UUID) -> list[ArtifactRef]:
        columns = self.table.c
        mine = sa.select(columns.id, columns.ordinal).where(columns.job_id == job_id)
        return [self._ref(*row) for row in conn.execute(mine.order_by(columns.ordinal))]

    def _write(self, conn: sa.Connection, job: JobView, output: BaseModel) -> list[ArtifactRef]:
        owner = {
            "job_id": job.id,
            "user_id": job.user_id,
            "target_type": job.target_type,
            "target_id": job.target_id,
        }
        items = self.items(output.model_dump(mode="json"))
        rows = [{"id": new_id(), "ordinal": n, **owner, **item} for n, item in enumerate(items)]
        self._insert.execute(conn, rows)
        return [self._ref(row["id"], row["ordinal"]) for row in rows]

    def _ref(self, row_id: UUID, ordinal: int) -> ArtifactRef:
        return ArtifactRef(self.artifact_type, str(row_id), ordinal)


def member(of: Mapping[str, Any], name: str) -> Any:
    """A member of the output; raises :class:`ProjectionOutputMismatch`, which names it."""
    try:
        return of[name]
    except KeyError:
        raise ProjectionOutputMismatch(f"the output has no {name!r}", field=name) from None
