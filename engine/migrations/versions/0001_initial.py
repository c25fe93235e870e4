"""The tables of the first release."""

from __future__ import annotations

import sqlalchemy as sa

from engine.migrations import columns as c
from engine.migrations.steps import create_table

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create every table: the way out, the job's life, its results and costs, the users, the built-in results."""
    _outbox()
    _inbox()
    _job()
    _snapshot()
    _output()
    _claim()
    _artifact()
    _usage()
    _admission()
    _credential()
    _flashcard()
    _quiz_question()
    _learning_analysis()
    _idempotency()
    _stream()
    _queue_control()
    _audit()


def _column(name: str, type_: c.Type, *, null: bool = False) -> sa.Column[object]:
    return sa.Column(name, type_, nullable=null, autoincrement=False)


def _outbox() -> None:
    create_table(
        "outbox_event",
        _column("id", c.uuid()),
        _column("event_type", c.name(64)),
        _column("aggregate_id", c.uuid()),
        _column("job_type", c.name(64)),
        _column("queue_name", c.name(32)),
        _column("subscriber", c.name(64)),
        _column("priority", sa.Integer()),
        _column("deliver_score", sa.BigInteger()),
        _column("delivery_no", sa.Integer()),
        _column("traceparent", c.name(64), null=True),
        _column("dedupe_digest", c.digest()),
        _column("payload", c.text(1024)),
        _column("status", c.name(16)),
        _column("attempt_count", sa.Integer()),
        _column("available_at", c.moment()),
        _column("claim_token", c.uuid(), null=True),
        _column("locked_by", c.text(128), null=True),
        _column("locked_at", c.moment(), null=True),
        _column("created_at", c.moment()),
        _column("published_at", c.moment(), null=True),
        _column("last_error", c.text(255), null=True),
        unique=[["dedupe_digest"]],
        indexes={
            "ix_outbox_event_due": ["status", "queue_name", "deliver_score", "id"],
            "ix_outbox_event_aggregate": ["aggregate_id"],
        },
    )


def _inbox() -> None:
    create_table(
        "inbox_event",
        _column("id", c.uuid()),
        _column("project", c.text(64)),
        _column("channel_type", c.name(32)),
        _column("channel_instance", c.text(64)),
        _column("provider_event_id", c.text(256)),
        _column("dedupe_digest", c.digest()),
        _column("job_id", c.uuid()),
        _column("created_at", c.moment()),
        _column("expires_at", c.moment()),
        unique=[["dedupe_digest"]],
        indexes={"ix_inbox_event_expires": ["expires_at"]},
    )


def _job() -> None:
    create_table(
        "ai_job",
        _column("id", c.uuid()),
        _column("user_id", c.text(128)),
        _column("job_type", c.name(64)),
        _column("target_type", c.text(64)),
        _column("target_id", c.text(255)),
        _column("idempotency_key", c.text(255), null=True),
        _column("idempotency_digest", c.digest(), null=True),
        _column("request_fingerprint", c.digest()),
        _column("lifecycle_status", c.name(16)),
        _column("status", c.name(16)),
        _column("wait_kind", c.name(16), null=True),
        _column("outcome", c.name(16), null=True),
        _column("queue_name", c.name(32)),
        _column("priority", sa.Integer()),
        _column("progress", sa.Integer()),
        _column("progress_note", c.text(255), null=True),
        _column("attempt_count", sa.Integer()),
        _column("max_attempts", sa.Integer()),
        _column("start_reason", c.name(16)),
        _column("epoch", sa.Integer()),
        _column("delivery_no", sa.Integer()),
        _column("locked_by", c.text(128), null=True),
        _column("locked_at", c.moment(), null=True),
        _column("lock_until", c.moment(), null=True),
        _column("heartbeat_at", c.moment(), null=True),
        _column("upkeep_at", c.moment(), null=True),
        _column("cancel_requested_at", c.moment(), null=True),
        _column("available_at", c.moment()),
        _column("credential_mode", c.name(32)),
        _column("credential_id", c.text(64), null=True),
        _column("prompt_version", c.text(32), null=True),
        _column("schema_version", c.text(32)),
        _column("output_schema_version", c.text(32)),
        _column("error_code", c.name(64), null=True),
        _column("public_error_message", c.text(500), null=True),
        _column("internal_error_message", c.long_text(), null=True),
        _column("retry_of_job_id", c.uuid(), null=True),
        _column("traceparent", c.name(64), null=True),
        _column("created_at", c.moment()),
        _column("started_at", c.moment(), null=True),
        _column("finished_at", c.moment(), null=True),
        unique=[["idempotency_digest"]],
        indexes={"ix_ai_job_upkeep": ["upkeep_at"], "ix_ai_job_user": ["user_id", "id"]},
    )


def _snapshot() -> None:
    create_table(
        "ai_job_snapshot",
        _column("job_id", c.uuid()),
        _column("content", c.long_bytes(), null=True),
        _column("content_hash", c.digest()),
        _column("schema_version", c.text(32)),
        _column("redaction_version", c.text(32)),
        _column("created_at", c.moment()),
        _column("expires_at", c.moment()),
        key=["job_id"],
        indexes={"ix_ai_job_snapshot_expires": ["expires_at"]},
    )


def _output() -> None:
    create_table(
        "ai_job_output",
        _column("job_id", c.uuid()),
        _column("content", c.long_bytes(), null=True),
        _column("output_hash", c.digest()),
        _column("schema_version", c.text(32)),
        _column("redaction_version", c.text(32)),
        _column("created_at", c.moment()),
        _column("expires_at", c.moment()),
        key=["job_id"],
        indexes={"ix_ai_job_output_expires": ["expires_at"]},
    )


def _claim() -> None:
    create_table(
        "ai_job_claim",
        _column("job_id", c.uuid()),
        _column("epoch", sa.Integer()),
        _column("attempt_no", sa.Integer()),
        _column("start_reason", c.name(16)),
        _column("worker", c.text(128)),
        _column("started_at", c.moment()),
        _column("ended_at", c.moment(), null=True),
        _column("error_code", c.name(64), null=True),
        _column("errors", c.long_text(), null=True),
        key=["job_id", "epoch"],
    )


def _artifact() -> None:
    create_table(
        "ai_job_artifact",
        _column("job_id", c.uuid()),
        _column("artifact_type", c.name(64)),
        _column("artifact_id", c.text(255)),
        _column("ordinal", sa.Integer()),
        _column("created_at", c.moment()),
        key=["job_id", "artifact_type", "artifact_id"],
    )


def _usage() -> None:
    create_table(
        "ai_usage_log",
        _column("id", c.uuid()),
        _column("job_id", c.uuid()),
        _column("epoch", sa.Integer()),
        _column("call_no", sa.Integer()),
        _column("attempt_no", sa.Integer()),
        _column("operation_id", c.name(128)),
        _column("status", c.name(16)),
        _column("credential_mode", c.name(32)),
        _column("provider", c.text(64)),
        _column("model", c.text(128), null=True),
        _column("input_tokens", sa.Integer(), null=True),
        _column("output_tokens", sa.Integer(), null=True),
        _column("cost_usd", c.dollars(), null=True),
        _column("latency_ms", sa.Integer(), null=True),
        _column("finish_reason", c.text(64), null=True),
        _column("provider_request_id", c.text(128), null=True),
        _column("error_code", c.name(64), null=True),
        _column("created_at", c.moment()),
        _column("settled_at", c.moment(), null=True),
        unique=[["job_id", "epoch", "call_no"]],
    )


def _admission() -> None:
    create_table(
        "admission_counter",
        _column("id", c.uuid()),
        _column("user_id", c.text(128)),
        _column("window", c.name(16)),
        _column("digest", c.digest()),
        _column("used", sa.Integer()),
        unique=[["digest"]],
    )


def _credential() -> None:
    create_table(
        "user_credential",
        _column("id", c.uuid()),
        _column("user_id", c.text(128)),
        _column("mode", c.name(32)),
        _column("label", c.text(100)),
        _column("sealed", c.long_bytes()),
        _column("created_at", c.moment()),
        _column("replaced_at", c.moment(), null=True),
        indexes={"ix_user_credential_user": ["user_id", "id"]},
    )


def _owned(name: str, *columns: sa.Column[object]) -> None:
    """A business table of a built-in projector."""
    create_table(
        name,
        _column("id", c.uuid()),
        _column("job_id", c.uuid()),
        _column("ordinal", sa.Integer()),
        _column("user_id", c.text(128)),
        _column("target_type", c.text(64)),
        _column("target_id", c.text(255)),
        *columns,
        _column("source", c.long_text(), null=True),
        unique=[["job_id", "ordinal"]],
        indexes={f"ix_{name}_user": ["user_id", "id"]},
    )


def _flashcard() -> None:
    _owned("flashcard", _column("front", c.long_text()), _column("back", c.long_text()))


def _quiz_question() -> None:
    _owned(
        "quiz_question",
        _column("question", c.long_text()),
        _column("options", c.long_text()),
        _column("correct_index", sa.Integer()),
        _column("explanation", c.long_text(), null=True),
    )


def _learning_analysis() -> None:
    _owned(
        "learning_analysis",
        _column("verdict", c.name(16)),
        _column("score", sa.Double()),
        _column("matched", c.long_text()),
        _column("missing", c.long_text()),
        _column("feedback", c.long_text()),
    )


def _idempotency() -> None:
    create_table(
        "idempotency_record",
        _column("id", c.uuid()),
        _column("caller", c.text(128)),
        _column("route", c.text(255)),
        _column("idempotency_key", c.text(255)),
        _column("digest", c.digest()),
        _column("fingerprint", c.digest()),
        _column("status", c.name(16)),
        _column("claim_token", c.uuid(), null=True),
        _column("lease_until", c.moment(), null=True),
        _column("sent_at", c.moment(), null=True),
        _column("job_id", c.uuid(), null=True),
        _column("answer_status", sa.Integer(), null=True),
        _column("answer_type", c.text(255), null=True),
        _column("answer_headers", c.long_text(), null=True),
        _column("answer_body", c.long_bytes(), null=True),
        _column("created_at", c.moment()),
        _column("completed_at", c.moment(), null=True),
        _column("expires_at", c.moment()),
        unique=[["digest"]],
        indexes={"ix_idempotency_record_expires": ["expires_at"]},
    )


def _stream() -> None:
    create_table(
        "stream_chunk",
        _column("job_id", c.uuid()),
        _column("epoch", sa.Integer()),
        _column("seq", sa.Integer()),
        _column("content", c.long_text()),
        _column("created_at", c.moment()),
        key=["job_id", "epoch", "seq"],
        indexes={"ix_stream_chunk_created": ["created_at"]},
    )


def _queue_control() -> None:
    create_table(
        "queue_control",
        _column("name", c.name(32)),
        _column("paused_by", c.text(128)),
        _column("reason", c.text(255)),
        _column("paused_at", c.moment()),
        _column("paused_until", c.moment(), null=True),
        key=["name"],
    )


def _audit() -> None:
    create_table(
        "audit_log",
        _column("id", c.uuid()),
        _column("at", c.moment()),
        _column("actor", c.text(128)),
        _column("edge", c.name(16)),
        _column("verb", c.name(64)),
        _column("object_type", c.name(32)),
        _column("object_id", c.text(255)),
        _column("reason", c.text(255), null=True),
        _column("result", c.name(64)),
        _column("request_id", c.text(64), null=True),
        _column("detail", c.long_text(), null=True),
        indexes={"ix_audit_log_object": ["object_type", "object_id", "id"]},
    )
