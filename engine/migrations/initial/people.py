"""Who may do what, who did: limits, keys, repeated requests, paused queues, the audit log."""

from __future__ import annotations

import sqlalchemy as sa

from engine.migrations import columns as c
from engine.migrations.steps import create_table


def create() -> None:
    """Create the tables of the edges and their users."""
    _admission()
    _credential()
    _idempotency()
    _queue_control()
    _audit()


def _admission() -> None:
    create_table(
        "admission_counter",
        c.column("id", c.uuid()),
        c.column("user_id", c.text(128)),
        c.column("window", c.name(16)),
        c.column("digest", c.digest()),
        c.column("used", sa.Integer()),
        unique=[["digest"]],
    )


def _credential() -> None:
    create_table(
        "user_credential",
        c.column("id", c.uuid()),
        c.column("user_id", c.text(128)),
        c.column("mode", c.name(32)),
        c.column("label", c.text(100)),
        c.column("sealed", c.long_bytes()),
        c.column("created_at", c.moment()),
        c.column("replaced_at", c.moment(), null=True),
        indexes={"ix_user_credential_user": ["user_id", "id"]},
    )


def _idempotency() -> None:
    create_table(
        "idempotency_record",
        c.column("id", c.uuid()),
        c.column("caller", c.text(128)),
        c.column("route", c.text(255)),
        c.column("idempotency_key", c.text(255)),
        c.column("digest", c.digest()),
        c.column("fingerprint", c.digest()),
        c.column("status", c.name(16)),
        c.column("claim_token", c.uuid(), null=True),
        c.column("lease_until", c.moment(), null=True),
        c.column("sent_at", c.moment(), null=True),
        c.column("job_id", c.uuid(), null=True),
        c.column("answer_status", sa.Integer(), null=True),
        c.column("answer_type", c.text(255), null=True),
        c.column("answer_headers", c.long_text(), null=True),
        c.column("answer_body", c.long_bytes(), null=True),
        c.column("created_at", c.moment()),
        c.column("completed_at", c.moment(), null=True),
        c.column("expires_at", c.moment()),
        unique=[["digest"]],
        indexes={"ix_idempotency_record_expires": ["expires_at"]},
    )


def _queue_control() -> None:
    create_table(
        "queue_control",
        c.column("name", c.name(32)),
        c.column("paused_by", c.text(128)),
        c.column("reason", c.text(255)),
        c.column("paused_at", c.moment()),
        c.column("paused_until", c.moment(), null=True),
        key=["name"],
    )


def _audit() -> None:
    create_table(
        "audit_log",
        c.column("id", c.uuid()),
        c.column("at", c.moment()),
        c.column("actor", c.text(128)),
        c.column("edge", c.name(16)),
        c.column("verb", c.name(64)),
        c.column("object_type", c.name(32)),
        c.column("object_id", c.text(255)),
        c.column("reason", c.text(255), null=True),
        c.column("result", c.name(64)),
        c.column("request_id", c.text(64), null=True),
        c.column("detail", c.long_text(), null=True),
        indexes={"ix_audit_log_object": ["object_type", "object_id", "id"]},
    )
