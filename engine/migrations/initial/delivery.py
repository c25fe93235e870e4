"""The way out and in: events that leave, events that arrive."""

from __future__ import annotations

import sqlalchemy as sa

from engine.migrations import columns as c
from engine.migrations.steps import create_table


def create() -> None:
    """Create outbox_event and inbox_event."""
    _outbox()
    _inbox()


def _outbox() -> None:
    create_table(
        "outbox_event",
        c.column("id", c.uuid()),
        c.column("event_type", c.name(64)),
        c.column("aggregate_id", c.uuid()),
        c.column("job_type", c.name(64)),
        c.column("queue_name", c.name(32)),
        c.column("subscriber", c.name(64)),
        c.column("priority", sa.Integer()),
        c.column("deliver_score", sa.BigInteger()),
        c.column("delivery_no", sa.Integer()),
        c.column("traceparent", c.name(64), null=True),
        c.column("dedupe_digest", c.digest()),
        c.column("payload", c.text(1024)),
        c.column("status", c.name(16)),
        c.column("attempt_count", sa.Integer()),
        c.column("available_at", c.moment()),
        c.column("claim_token", c.uuid(), null=True),
        c.column("locked_by", c.text(128), null=True),
        c.column("locked_at", c.moment(), null=True),
        c.column("created_at", c.moment()),
        c.column("published_at", c.moment(), null=True),
        c.column("last_error", c.text(255), null=True),
        unique=[["aggregate_id", "dedupe_digest"]],
        indexes={"ix_outbox_event_due": ["status", "queue_name", "deliver_score", "id"]},
    )


def _inbox() -> None:
    create_table(
        "inbox_event",
        c.column("id", c.uuid()),
        c.column("project", c.text(64)),
        c.column("channel_type", c.name(32)),
        c.column("channel_instance", c.text(64)),
        c.column("provider_event_id", c.text(256)),
        c.column("dedupe_digest", c.digest()),
        c.column("job_id", c.uuid()),
        c.column("created_at", c.moment()),
        c.column("expires_at", c.moment()),
        unique=[["dedupe_digest"]],
        indexes={"ix_inbox_event_expires": ["expires_at"]},
    )
