"""The tables of this package: ``outbox_event`` (facts on their way out) and ``inbox_event`` (facts received)."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from outbox.base.db import MYSQL_TABLE, Base
from outbox.base.types import BinaryUuid, UtcDateTime, ascii_text, digest_bytes, exact_text


class OutboxEvent(Base):
    """A fact that must leave the database, written in the transaction that made it true."""

    __tablename__ = "outbox_event"

    id: Mapped[UUID] = mapped_column(BinaryUuid, primary_key=True)
    event_type: Mapped[str] = mapped_column(ascii_text(64))
    aggregate_id: Mapped[UUID] = mapped_column(BinaryUuid)
    job_type: Mapped[str] = mapped_column(ascii_text(64))
    queue_name: Mapped[str] = mapped_column(ascii_text(32))
    subscriber: Mapped[str] = mapped_column(ascii_text(64))
    priority: Mapped[int] = mapped_column(sa.Integer)
    #: max(created, available_at) in ms since 1970 plus priority times the step: the one order (design 8).
    deliver_score: Mapped[int] = mapped_column(sa.BigInteger)
    delivery_no: Mapped[int] = mapped_column(sa.Integer)
    traceparent: Mapped[str | None] = mapped_column(ascii_text(64))
    dedupe_digest: Mapped[bytes] = mapped_column(digest_bytes(), unique=True)
    payload: Mapped[str] = mapped_column(exact_text(1024))
    status: Mapped[str] = mapped_column(ascii_text(16))
    attempt_count: Mapped[int] = mapped_column(sa.Integer)
    available_at: Mapped[datetime] = mapped_column(UtcDateTime)
    claim_token: Mapped[UUID | None] = mapped_column(BinaryUuid)
    locked_by: Mapped[str | None] = mapped_column(exact_text(128))
    locked_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    published_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    last_error: Mapped[str | None] = mapped_column(exact_text(255))

    __table_args__ = (
        # Exactly the claim: equality on two columns, then the order it reads in (X22, OB-11).
        sa.Index("ix_outbox_event_due", "status", "queue_name", "deliver_score", "id"),
        sa.Index("ix_outbox_event_aggregate", "aggregate_id"),
        MYSQL_TABLE,
    )


class InboxEvent(Base):
    """A foreign event that was received: it makes one job, however often it arrives (ADR-114 D1, EW-4)."""

    __tablename__ = "inbox_event"

    id: Mapped[UUID] = mapped_column(BinaryUuid, primary_key=True)
    project: Mapped[str] = mapped_column(exact_text(64))
    channel_type: Mapped[str] = mapped_column(ascii_text(32))
    channel_instance: Mapped[str] = mapped_column(exact_text(64))
    provider_event_id: Mapped[str] = mapped_column(exact_text(256))
    dedupe_digest: Mapped[bytes] = mapped_column(digest_bytes(), unique=True)
    job_id: Mapped[UUID] = mapped_column(BinaryUuid)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    expires_at: Mapped[datetime] = mapped_column(UtcDateTime)

    __table_args__ = (sa.Index("ix_inbox_event_expires", "expires_at"), MYSQL_TABLE)
