"""The table of this package: ``stream_chunk``, pieces of answers that are being made."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from outbox.base.db import MYSQL_TABLE, Base
from outbox.base.types import BinaryUuid, UtcDateTime, long_text


class StreamChunk(Base):
    """Some text of one claim of a job; ``seq`` counts from 1 within the claim."""

    __tablename__ = "stream_chunk"

    job_id: Mapped[UUID] = mapped_column(BinaryUuid, primary_key=True)
    epoch: Mapped[int] = mapped_column(sa.Integer, primary_key=True, autoincrement=False)
    seq: Mapped[int] = mapped_column(sa.Integer, primary_key=True, autoincrement=False)
    content: Mapped[str] = mapped_column(long_text())
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)

    __table_args__ = (sa.Index("ix_stream_chunk_created", "created_at"), MYSQL_TABLE)
