"""The table of this package: ``idempotency_record``, one row per key of a caller on a route."""

from __future__ import annotations

import sqlalchemy as sa

from outbox.base.tables import METADATA, MYSQL_TABLE, column
from outbox.base.types import (
    BinaryUuid,
    UtcDateTime,
    ascii_text,
    digest_bytes,
    exact_text,
    long_bytes,
    long_text,
)

#: Longest values of the columns that are for people, in characters; identity is the digest.
CALLER_CHARS = 128
ROUTE_CHARS = 255


#: What is known about one key: who runs it, or what the answer was.
IDEMPOTENCY_RECORD = sa.Table(
    "idempotency_record",
    METADATA,
    column("id", BinaryUuid, primary_key=True),
    column("caller", exact_text(CALLER_CHARS)),
    column("route", exact_text(ROUTE_CHARS)),
    column("idempotency_key", exact_text(255)),
    column("digest", digest_bytes(), unique=True),
    column("fingerprint", digest_bytes()),
    column("status", ascii_text(16)),
    column("claim_token", BinaryUuid, nullable=True),
    # Renewed while the request runs; a missed one, not an age, makes a request dead (X55).
    column("lease_until", UtcDateTime, nullable=True),
    # When something was about to be sent to a provider.
    column("sent_at", UtcDateTime, nullable=True),
    column("job_id", BinaryUuid, nullable=True),
    column("answer_status", sa.Integer, nullable=True),
    column("answer_type", exact_text(255), nullable=True),
    column("answer_headers", long_text(), nullable=True),
    column("answer_body", long_bytes(), nullable=True),
    column("created_at", UtcDateTime),
    column("completed_at", UtcDateTime, nullable=True),
    # Counted from completion; while it runs, from the last renewal (X47).
    column("expires_at", UtcDateTime),
    sa.Index("ix_idempotency_record_expires", "expires_at"),
    **MYSQL_TABLE,
)
