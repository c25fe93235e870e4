"""What the built-in projectors share: one business row per item of the output, owned by the job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import UUID

import sqlalchemy as sa
from pydantic import BaseModel

from outbox.base.bulk import RowInsert
from outbox.base.ids import new_id
from outbox.base.tables import METADATA, MYSQL_TABLE, column
from outbox.base.types import BinaryUuid, exact_text, long_text
from projectors.errors import ProjectionOutputMismatch
from projectors.protocol import ArtifactRef
from registry.job import JobView

if TYPE_CHECKING:
    from sqlalchemy.orm import Session


def owned_table(name: str, *columns: sa.Column[Any]) -> sa.Table:
    """A business table: whose row it is, what it is about, the ``columns`` of its kind, and where it came from."""
    return sa.Table(
        name,
        METADATA,
        column("id", BinaryUuid, primary_key=True),
        column("job_id", BinaryUuid),
        # Place in the output, from 0; (job, ordinal) is unique, so no job can leave its rows twice.
        column("ordinal", sa.Integer),
        column("user_id", exact_text(128)),
        column("target_type", exact_text(64)),
        column("target_id", exact_text(255)),
        *columns,
        # The passage of the input that proves it, where there is one.
        column("source", long_text(), nullable=True),
        sa.UniqueConstraint("job_id", "ordinal"),
        sa.Index(f"ix_{name}_user", "user_id", "id"),
        **MYSQL_TABLE,
    )


class RowProjector:
    """Writes one row per item; a repeated projection of a job returns its rows and writes nothing."""

    key: ClassVar[str]
    artifact_type: ClassVar[str]
    table: ClassVar[sa.Table]

    def __init__(self) -> None:
        self._insert = RowInsert(self.table, [one.name for one in self.table.columns])

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
