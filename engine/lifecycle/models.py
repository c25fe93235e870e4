"""The tables of a job's life. ``ai_job`` is the only truth about a job; it holds no payload and no output."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from outbox.base.db import MYSQL_TABLE, Base
from outbox.base.types import (
    BinaryUuid,
    UtcDateTime,
    ascii_text,
    digest_bytes,
    exact_text,
    long_bytes,
    long_text,
)


class AiJob(Base):
    """One durable unit of work. Only ``AiJobLifecycleRepository`` writes this table."""

    __tablename__ = "ai_job"

    id: Mapped[UUID] = mapped_column(BinaryUuid, primary_key=True)
    user_id: Mapped[str] = mapped_column(exact_text(128))
    job_type: Mapped[str] = mapped_column(ascii_text(64))
    target_type: Mapped[str] = mapped_column(exact_text(64))
    target_id: Mapped[str] = mapped_column(exact_text(255))
    #: The caller's text, for people; identity is the digest beside it (CI-3).
    idempotency_key: Mapped[str | None] = mapped_column(exact_text(255))
    idempotency_digest: Mapped[bytes | None] = mapped_column(digest_bytes(), unique=True)
    request_fingerprint: Mapped[bytes] = mapped_column(digest_bytes())

    lifecycle_status: Mapped[str] = mapped_column(ascii_text(16))
    #: The legacy shadow (ADR-003 1.5), written with every change of the line above.
    status: Mapped[str] = mapped_column(ascii_text(16))
    wait_kind: Mapped[str | None] = mapped_column(ascii_text(16))
    outcome: Mapped[str | None] = mapped_column(ascii_text(16))

    queue_name: Mapped[str] = mapped_column(ascii_text(32))
    priority: Mapped[int] = mapped_column(sa.Integer)
    progress: Mapped[int] = mapped_column(sa.Integer)
    progress_note: Mapped[str | None] = mapped_column(exact_text(255))

    attempt_count: Mapped[int] = mapped_column(sa.Integer)
    max_attempts: Mapped[int] = mapped_column(sa.Integer)
    #: Why the next claim will start: decides whether it counts as an attempt (design 6).
    start_reason: Mapped[str] = mapped_column(ascii_text(16))
    #: Raised by every claim; the fence of every later write.
    epoch: Mapped[int] = mapped_column(sa.Integer)
    delivery_no: Mapped[int] = mapped_column(sa.Integer)
    locked_by: Mapped[str | None] = mapped_column(exact_text(128))
    locked_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    lock_until: Mapped[datetime | None] = mapped_column(UtcDateTime)
    heartbeat_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    #: When upkeep should look at this job again; a hint, never a condition of a move (ADR-0002).
    upkeep_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    cancel_requested_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    available_at: Mapped[datetime] = mapped_column(UtcDateTime)

    credential_mode: Mapped[str] = mapped_column(ascii_text(32))
    credential_id: Mapped[str | None] = mapped_column(exact_text(64))
    prompt_version: Mapped[str | None] = mapped_column(exact_text(32))
    schema_version: Mapped[str] = mapped_column(exact_text(32))
    output_schema_version: Mapped[str] = mapped_column(exact_text(32))
    error_code: Mapped[str | None] = mapped_column(ascii_text(64))
    public_error_message: Mapped[str | None] = mapped_column(exact_text(500))
    internal_error_message: Mapped[str | None] = mapped_column(long_text())
    retry_of_job_id: Mapped[UUID | None] = mapped_column(BinaryUuid)
    traceparent: Mapped[str | None] = mapped_column(ascii_text(64))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    started_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    finished_at: Mapped[datetime | None] = mapped_column(UtcDateTime)

    __table_args__ = (
        sa.Index("ix_ai_job_upkeep", "upkeep_at"),
        sa.Index("ix_ai_job_user", "user_id", "id"),
        MYSQL_TABLE,
    )


class AiJobSnapshot(Base):
    """The frozen, validated input of a job; purged only after the job has ended (X86)."""

    __tablename__ = "ai_job_snapshot"

    job_id: Mapped[UUID] = mapped_column(BinaryUuid, primary_key=True)
    content: Mapped[bytes | None] = mapped_column(long_bytes())
    content_hash: Mapped[bytes] = mapped_column(digest_bytes())
    schema_version: Mapped[str] = mapped_column(exact_text(32))
    redaction_version: Mapped[str] = mapped_column(exact_text(32))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    expires_at: Mapped[datetime] = mapped_column(UtcDateTime)

    __table_args__ = (sa.Index("ix_ai_job_snapshot_expires", "expires_at"), MYSQL_TABLE)


class AiJobOutput(Base):
    """The canonical output bytes after redaction, written in the final transaction."""

    __tablename__ = "ai_job_output"

    job_id: Mapped[UUID] = mapped_column(BinaryUuid, primary_key=True)
    content: Mapped[bytes | None] = mapped_column(long_bytes())
    output_hash: Mapped[bytes] = mapped_column(digest_bytes())
    schema_version: Mapped[str] = mapped_column(exact_text(32))
    redaction_version: Mapped[str] = mapped_column(exact_text(32))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    expires_at: Mapped[datetime] = mapped_column(UtcDateTime)

    __table_args__ = (sa.Index("ix_ai_job_output_expires", "expires_at"), MYSQL_TABLE)


class AiJobClaim(Base):
    """One row per claim: what each start of a job was for, where it ran and how it ended."""

    __tablename__ = "ai_job_claim"

    job_id: Mapped[UUID] = mapped_column(BinaryUuid, primary_key=True)
    epoch: Mapped[int] = mapped_column(sa.Integer, primary_key=True, autoincrement=False)
    attempt_no: Mapped[int] = mapped_column(sa.Integer)
    start_reason: Mapped[str] = mapped_column(ascii_text(16))
    worker: Mapped[str] = mapped_column(exact_text(128))
    started_at: Mapped[datetime] = mapped_column(UtcDateTime)
    ended_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    error_code: Mapped[str | None] = mapped_column(ascii_text(64))
    #: What the next attempt's prompt may be told (validation errors), as a JSON list; no output (X28).
    errors: Mapped[str | None] = mapped_column(long_text())

    __table_args__ = (MYSQL_TABLE,)


class CommitReceiptRow(Base):
    """One commit that a handler made itself: its operation, once for each job, and a hash of its content."""

    __tablename__ = "commit_receipt"

    #: Chosen before the commit, so that it is found when the answer to COMMIT was lost.
    id: Mapped[UUID] = mapped_column(BinaryUuid, primary_key=True)
    job_id: Mapped[UUID] = mapped_column(BinaryUuid)
    operation: Mapped[str] = mapped_column(ascii_text(64))
    #: Counts the commits of the job, from 1.
    version: Mapped[int] = mapped_column(sa.Integer)
    #: SHA-256 over the payload's canonical bytes; the payload itself is not stored.
    payload_hash: Mapped[bytes] = mapped_column(digest_bytes())
    epoch: Mapped[int] = mapped_column(sa.Integer)
    attempt_no: Mapped[int] = mapped_column(sa.Integer)
    #: What the change returned, as canonical JSON.
    result: Mapped[bytes] = mapped_column(long_bytes())
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)

    __table_args__ = (
        # Also the index by job: it begins with it.
        sa.UniqueConstraint("job_id", "operation"),
        MYSQL_TABLE,
    )
