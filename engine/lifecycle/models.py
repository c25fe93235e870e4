"""The tables of a job's life. ``ai_job`` is the only truth about a job; it holds no payload and no output."""

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

#: One durable unit of work. Only ``AiJobLifecycleRepository`` writes this table.
AI_JOB = sa.Table(
    "ai_job",
    METADATA,
    column("id", BinaryUuid, primary_key=True),
    column("user_id", exact_text(128)),
    column("job_type", ascii_text(64)),
    column("target_type", exact_text(64)),
    column("target_id", exact_text(255)),
    # The caller's text, for people; identity is the digest beside it (CI-3).
    column("idempotency_key", exact_text(255), nullable=True),
    column("idempotency_digest", digest_bytes(), nullable=True, unique=True),
    column("request_fingerprint", digest_bytes()),

    column("lifecycle_status", ascii_text(16)),
    # The legacy shadow (ADR-003 1.5), written with every change of the line above.
    column("status", ascii_text(16)),
    column("wait_kind", ascii_text(16), nullable=True),
    column("outcome", ascii_text(16), nullable=True),

    column("queue_name", ascii_text(32)),
    column("priority", sa.Integer),
    column("progress", sa.Integer),
    column("progress_note", exact_text(255), nullable=True),

    column("attempt_count", sa.Integer),
    column("max_attempts", sa.Integer),
    # Why the next claim will start: decides whether it counts as an attempt (design 6).
    column("start_reason", ascii_text(16)),
    # Raised by every claim; the fence of every later write.
    column("epoch", sa.Integer),
    column("delivery_no", sa.Integer),
    column("locked_by", exact_text(128), nullable=True),
    column("locked_at", UtcDateTime, nullable=True),
    column("lock_until", UtcDateTime, nullable=True),
    column("heartbeat_at", UtcDateTime, nullable=True),
    # When upkeep should look at this job again; a hint, never a condition of a move (ADR-0002).
    column("upkeep_at", UtcDateTime, nullable=True),
    column("cancel_requested_at", UtcDateTime, nullable=True),
    column("available_at", UtcDateTime),

    column("credential_mode", ascii_text(32)),
    column("credential_id", exact_text(64), nullable=True),
    column("prompt_version", exact_text(32), nullable=True),
    column("schema_version", exact_text(32)),
    column("output_schema_version", exact_text(32)),
    column("error_code", ascii_text(64), nullable=True),
    column("public_error_message", exact_text(500), nullable=True),
    column("internal_error_message", long_text(), nullable=True),
    column("retry_of_job_id", BinaryUuid, nullable=True),
    column("traceparent", ascii_text(64), nullable=True),
    column("created_at", UtcDateTime),
    column("started_at", UtcDateTime, nullable=True),
    column("finished_at", UtcDateTime, nullable=True),
    sa.Index("ix_ai_job_upkeep", "upkeep_at"),
    sa.Index("ix_ai_job_user", "user_id", "id"),
    **MYSQL_TABLE,
)

#: The frozen, validated input of a job; purged only after the job has ended (X86).
AI_JOB_SNAPSHOT = sa.Table(
    "ai_job_snapshot",
    METADATA,
    column("job_id", BinaryUuid, primary_key=True),
    column("content", long_bytes(), nullable=True),
    column("content_hash", digest_bytes()),
    column("schema_version", exact_text(32)),
    column("redaction_version", exact_text(32)),
    column("created_at", UtcDateTime),
    column("expires_at", UtcDateTime),
    sa.Index("ix_ai_job_snapshot_expires", "expires_at"),
    **MYSQL_TABLE,
)

#: The canonical output bytes after redaction, written in the final transaction.
AI_JOB_OUTPUT = sa.Table(
    "ai_job_output",
    METADATA,
    column("job_id", BinaryUuid, primary_key=True),
    column("content", long_bytes(), nullable=True),
    column("output_hash", digest_bytes()),
    column("schema_version", exact_text(32)),
    column("redaction_version", exact_text(32)),
    column("created_at", UtcDateTime),
    column("expires_at", UtcDateTime),
    sa.Index("ix_ai_job_output_expires", "expires_at"),
    **MYSQL_TABLE,
)

#: One row per claim: what each start of a job was for, where it ran and how it ended.
AI_JOB_CLAIM = sa.Table(
    "ai_job_claim",
    METADATA,
    column("job_id", BinaryUuid, primary_key=True),
    column("epoch", sa.Integer, primary_key=True, autoincrement=False),
    column("attempt_no", sa.Integer),
    column("start_reason", ascii_text(16)),
    column("worker", exact_text(128)),
    column("started_at", UtcDateTime),
    column("ended_at", UtcDateTime, nullable=True),
    column("error_code", ascii_text(64), nullable=True),
    # What the next attempt's prompt may be told (validation errors), as a JSON list; no output (X28).
    column("errors", long_text(), nullable=True),
    **MYSQL_TABLE,
)

#: One commit that a handler made itself: its operation, once for each job, and a hash of its content.
COMMIT_RECEIPT = sa.Table(
    "commit_receipt",
    METADATA,
    # Chosen before the commit, so that it is found when the answer to COMMIT was lost.
    column("id", BinaryUuid, primary_key=True),
    column("job_id", BinaryUuid),
    column("operation", ascii_text(64)),
    # Counts the commits of the job, from 1.
    column("version", sa.Integer),
    # SHA-256 over the payload's canonical bytes; the payload itself is not stored.
    column("payload_hash", digest_bytes()),
    column("epoch", sa.Integer),
    column("attempt_no", sa.Integer),
    # What the change returned, as canonical JSON.
    column("result", long_bytes()),
    column("created_at", UtcDateTime),
    # Also the index by job: it begins with it.
    sa.UniqueConstraint("job_id", "operation"),
    **MYSQL_TABLE,
)
