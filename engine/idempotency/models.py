"""The table of this package: ``idempotency_record``, one row per key of a caller on a route."""

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

#: Longest values of the columns that are for people, in characters; identity is the digest.
CALLER_CHARS = 128
ROUTE_CHARS = 255


class IdempotencyRecord(Base):
    """What is known about one key: who runs it, or what the answer was."""

    __tablename__ = "idempotency_record"

    id: Mapped[UUID] = mapped_column(BinaryUuid, primary_key=True)
    caller: Mapped[str] = mapped_column(exact_text(CALLER_CHARS))
    route: Mapped[str] = mapped_column(exact_text(ROUTE_CHARS))
    idempotency_key: Mapped[str] = mapped_column(exact_text(255))
    digest: Mapped[bytes] = mapped_column(digest_bytes(), unique=True)
    fingerprint: Mapped[bytes] = mapped_column(digest_bytes())
    status: Mapped[str] = mapped_column(ascii_text(16))
    claim_token: Mapped[UUID | None] = mapped_column(BinaryUuid)
    #: Renewed while the request runs; a missed one, not an age, makes a request dead (X55).
    lease_until: Mapped[datetime | None] = mapped_column(UtcDateTime)
    #: When something was about to be sent to a provider.
    sent_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    job_id: Mapped[UUID | None] = mapped_column(BinaryUuid)
    answer_status: Mapped[int | None] = mapped_column(sa.Integer)
    answer_type: Mapped[str | None] = mapped_column(exact_text(255))
    answer_headers: Mapped[str | None] = mapped_column(long_text())
    answer_body: Mapped[bytes | None] = mapped_column(long_bytes())
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    completed_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    #: Counted from completion; while it runs, from the last renewal (X47).
    expires_at: Mapped[datetime] = mapped_column(UtcDateTime)

    __table_args__ = (sa.Index("ix_idempotency_record_expires", "expires_at"), MYSQL_TABLE)
