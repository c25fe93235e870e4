"""The tables of this package: ``outbox_event`` (facts on their way out) and ``inbox_event`` (facts received)."""

from __future__ import annotations

import sqlalchemy as sa

from outbox.base.tables import METADATA, MYSQL_TABLE, column
from outbox.base.types import BinaryUuid, UtcDateTime, ascii_text, digest_bytes, exact_text

#: A fact that must leave the database, written in the transaction that made it true.
OUTBOX_EVENT = sa.Table(
    "outbox_event",
    METADATA,
    column("id", BinaryUuid, primary_key=True),
    column("event_type", ascii_text(64)),
    column("aggregate_id", BinaryUuid),
    column("job_type", ascii_text(64)),
    column("queue_name", ascii_text(32)),
    column("subscriber", ascii_text(64)),
    column("priority", sa.Integer),
    # max(created, available_at) in ms since 1970 plus priority times the step: the one order (design 8).
    column("deliver_score", sa.BigInteger),
    column("delivery_no", sa.Integer),
    column("traceparent", ascii_text(64), nullable=True),
    column("dedupe_digest", digest_bytes()),
    column("payload", exact_text(1024)),
    column("status", ascii_text(16)),
    column("attempt_count", sa.Integer),
    column("available_at", UtcDateTime),
    column("claim_token", BinaryUuid, nullable=True),
    column("locked_by", exact_text(128), nullable=True),
    column("locked_at", UtcDateTime, nullable=True),
    column("created_at", UtcDateTime),
    column("published_at", UtcDateTime, nullable=True),
    column("last_error", exact_text(255), nullable=True),
    # Exactly the claim: equality on two columns, then the order it reads in (X22, OB-11).
    sa.Index("ix_outbox_event_due", "status", "queue_name", "deliver_score", "id"),
    # The digest alone would be as unique, as the job is in it; but then each insert goes to any page of the index.
    sa.UniqueConstraint("aggregate_id", "dedupe_digest"),
    **MYSQL_TABLE,
)

#: A foreign event that was received: it makes one job, however often it arrives (ADR-114 D1, EW-4).
INBOX_EVENT = sa.Table(
    "inbox_event",
    METADATA,
    column("id", BinaryUuid, primary_key=True),
    column("project", exact_text(64)),
    column("channel_type", ascii_text(32)),
    column("channel_instance", exact_text(64)),
    column("provider_event_id", exact_text(256)),
    column("dedupe_digest", digest_bytes(), unique=True),
    column("job_id", BinaryUuid),
    column("created_at", UtcDateTime),
    column("expires_at", UtcDateTime),
    sa.Index("ix_inbox_event_expires", "expires_at"),
    **MYSQL_TABLE,
)
