"""A job's life: its row, input, output, claims and stream."""

from __future__ import annotations

import sqlalchemy as sa

from engine.migrations import columns as c
from engine.migrations.steps import create_table


def create() -> None:
    """Create ai_job and what belongs to one job."""
    _job()
    _snapshot()
    _output()
    _claim()
    _stream()


def _job() -> None:
    create_table(
        "ai_job",
        c.column("id", c.uuid()),
        c.column("user_id", c.text(128)),
        c.column("job_type", c.name(64)),
        c.column("target_type", c.text(64)),
        c.column("target_id", c.text(255)),
        c.column("idempotency_key", c.text(255), null=True),
        c.column("idempotency_digest", c.digest(), null=True),
        c.column("request_fingerprint", c.digest()),
        c.column("lifecycle_status", c.name(16)),
        c.column("status", c.name(16)),
        c.column("wait_kind", c.name(16), null=True),
        c.column("outcome", c.name(16), null=True),
        c.column("queue_name", c.name(32)),
        c.column("priority", sa.Integer()),
        c.column("progress", sa.Integer()),
        c.column("progress_note", c.text(255), null=True),
        c.column("attempt_count", sa.Integer()),
        c.column("max_attempts", sa.Integer()),
        c.column("start_reason", c.name(16)),
        c.column("epoch", sa.Integer()),
        c.column("delivery_no", sa.Integer()),
        c.column("locked_by", c.text(128), null=True),
        c.column("locked_at", c.moment(), null=True),
        c.column("lock_until", c.moment(), null=True),
        c.column("heartbeat_at", c.moment(), null=True),
        c.column("upkeep_at", c.moment(), null=True),
        c.column("cancel_requested_at", c.moment(), null=True),
        c.column("available_at", c.moment()),
        c.column("credential_mode", c.name(32)),
        c.column("credential_id", c.text(64), null=True),
        c.column("prompt_version", c.text(32), null=True),
        c.column("schema_version", c.text(32)),
        c.column("output_schema_version", c.text(32)),
        c.column("error_code", c.name(64), null=True),
        c.column("public_error_message", c.text(500), null=True),
        c.column("internal_error_message", c.long_text(), null=True),
        c.column("retry_of_job_id", c.uuid(), null=True),
        c.column("traceparent", c.name(64), null=True),
        c.column("created_at", c.moment()),
        c.column("started_at", c.moment(), null=True),
        c.column("finished_at", c.moment(), null=True),
        unique=[["idempotency_digest"]],
        indexes={"ix_ai_job_upkeep": ["upkeep_at"], "ix_ai_job_user": ["user_id", "id"]},
    )


def _snapshot() -> None:
    create_table(
        "ai_job_snapshot",
        c.column("job_id", c.uuid()),
        c.column("content", c.long_bytes(), null=True),
        c.column("content_hash", c.digest()),
        c.column("schema_version", c.text(32)),
        c.column("redaction_version", c.text(32)),
        c.column("created_at", c.moment()),
        c.column("expires_at", c.moment()),
        key=["job_id"],
        indexes={"ix_ai_job_snapshot_expires": ["expires_at"]},
    )


def _output() -> None:
    create_table(
        "ai_job_output",
        c.column("job_id", c.uuid()),
        c.column("content", c.long_bytes(), null=True),
        c.column("output_hash", c.digest()),
        c.column("schema_version", c.text(32)),
        c.column("redaction_version", c.text(32)),
        c.column("created_at", c.moment()),
        c.column("expires_at", c.moment()),
        key=["job_id"],
        indexes={"ix_ai_job_output_expires": ["expires_at"]},
    )


def _claim() -> None:
    create_table(
        "ai_job_claim",
        c.column("job_id", c.uuid()),
        c.column("epoch", sa.Integer()),
        c.column("attempt_no", sa.Integer()),
        c.column("start_reason", c.name(16)),
        c.column("worker", c.text(128)),
        c.column("started_at", c.moment()),
        c.column("ended_at", c.moment(), null=True),
        c.column("error_code", c.name(64), null=True),
        c.column("errors", c.long_text(), null=True),
        key=["job_id", "epoch"],
    )


def _stream() -> None:
    create_table(
        "stream_chunk",
        c.column("job_id", c.uuid()),
        c.column("epoch", sa.Integer()),
        c.column("seq", sa.Integer()),
        c.column("content", c.long_text()),
        c.column("created_at", c.moment()),
        key=["job_id", "epoch", "seq"],
        indexes={"ix_stream_chunk_created": ["created_at"]},
    )
