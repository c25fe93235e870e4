"""The table of this package: ``stream_chunk``, pieces of answers that are being made."""

from __future__ import annotations

import sqlalchemy as sa

from outbox.base.tables import METADATA, MYSQL_TABLE, column
from outbox.base.types import BinaryUuid, UtcDateTime, long_text

#: Some text of one claim of a job; ``seq`` counts from 1 within the claim.
STREAM_CHUNK = sa.Table(
    "stream_chunk",
    METADATA,
    column("job_id", BinaryUuid, primary_key=True),
    column("epoch", sa.Integer, primary_key=True, autoincrement=False),
    column("seq", sa.Integer, primary_key=True, autoincrement=False),
    column("content", long_text()),
    column("created_at", UtcDateTime),
    sa.Index("ix_stream_chunk_created", "created_at"),
    **MYSQL_TABLE,
)
