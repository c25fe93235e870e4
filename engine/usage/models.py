"""The table ``ai_usage_log``: one row per provider call, written before bytes leave (promise 5, WL-11)."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from outbox.base.db import MYSQL_TABLE, Base
from outbox.base.types import BinaryUuid, UtcDateTime, ascii_text, exact_text

_BILLIONTHS: Final = 9


class CostUsd(sa.types.TypeDecorator[Decimal]):
    """US dollars with nine digits after the point, exact in every sum.

    SQLite has no decimal numbers, only floats that are off by a little: there it counts billionths.
    """

    impl = sa.Numeric
    cache_ok = True

    def load_dialect_impl(self, dialect: sa.Dialect) -> sa.types.TypeEngine[Any]:
        if dialect.name == "sqlite":
            return dialect.type_descriptor(sa.BigInteger())
        return dialect.type_descriptor(sa.Numeric(18, _BILLIONTHS))

    def process_bind_param(self, value: Decimal | None, dialect: sa.Dialect) -> Any:
        if value is None or dialect.name != "sqlite":
            return value
        return int(value.scaleb(_BILLIONTHS).to_integral_value())

    def process_result_value(self, value: Any, dialect: sa.Dialect) -> Decimal | None:
        if value is None or dialect.name != "sqlite":
            return None if value is None else Decimal(value)
        return Decimal(value).scaleb(-_BILLIONTHS)


class AiUsageLog(Base):
    """One provider call: ``intent`` before it, ``settled`` or ``failed`` after.

    A row that is still an intent when its claim is over stands for a call of unknown outcome.
    """

    __tablename__ = "ai_usage_log"

    id: Mapped[UUID] = mapped_column(BinaryUuid, primary_key=True)
    job_id: Mapped[UUID] = mapped_column(BinaryUuid)
    epoch: Mapped[int] = mapped_column(sa.Integer)
    #: Counts the calls of one claim, from 1.
    call_no: Mapped[int] = mapped_column(sa.Integer)
    attempt_no: Mapped[int] = mapped_column(sa.Integer)
    #: The same for the same call of a later claim; sent to the provider as its idempotency key.
    operation_id: Mapped[str] = mapped_column(ascii_text(128))
    status: Mapped[str] = mapped_column(ascii_text(16))

    credential_mode: Mapped[str] = mapped_column(ascii_text(32))
    provider: Mapped[str] = mapped_column(exact_text(64))
    model: Mapped[str | None] = mapped_column(exact_text(128))
    input_tokens: Mapped[int | None] = mapped_column(sa.Integer)
    output_tokens: Mapped[int | None] = mapped_column(sa.Integer)
    cost_usd: Mapped[Decimal | None] = mapped_column(CostUsd)
    latency_ms: Mapped[int | None] = mapped_column(sa.Integer)
    finish_reason: Mapped[str | None] = mapped_column(exact_text(64))
    provider_request_id: Mapped[str | None] = mapped_column(exact_text(128))
    error_code: Mapped[str | None] = mapped_column(ascii_text(64))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    settled_at: Mapped[datetime | None] = mapped_column(UtcDateTime)

    __table_args__ = (
        # Also the index by job: it begins with it.
        sa.UniqueConstraint("job_id", "epoch", "call_no"),
        MYSQL_TABLE,
    )
