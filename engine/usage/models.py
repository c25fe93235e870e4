"""The table ``ai_usage_log``: one row per provider call, written before bytes leave (promise 5, WL-11)."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

import sqlalchemy as sa

from outbox.base.tables import METADATA, MYSQL_TABLE, column
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


#: One provider call: ``intent`` before it, ``settled`` or ``failed`` after.
#:
#: A row that is still an intent when its claim is over stands for a call of unknown outcome.
AI_USAGE_LOG = sa.Table(
    "ai_usage_log",
    METADATA,
    column("id", BinaryUuid, primary_key=True),
    column("job_id", BinaryUuid),
    column("epoch", sa.Integer),
    # Counts the calls of one claim, from 1.
    column("call_no", sa.Integer),
    column("attempt_no", sa.Integer),
    # The same for the same call of a later claim; sent to the provider as its idempotency key.
    column("operation_id", ascii_text(128)),
    column("status", ascii_text(16)),

    column("credential_mode", ascii_text(32)),
    column("provider", exact_text(64)),
    column("model", exact_text(128), nullable=True),
    column("input_tokens", sa.Integer, nullable=True),
    column("output_tokens", sa.Integer, nullable=True),
    column("cost_usd", CostUsd, nullable=True),
    column("latency_ms", sa.Integer, nullable=True),
    column("finish_reason", exact_text(64), nullable=True),
    column("provider_request_id", exact_text(128), nullable=True),
    column("error_code", ascii_text(64), nullable=True),
    column("created_at", UtcDateTime),
    column("settled_at", UtcDateTime, nullable=True),
    # Also the index by job: it begins with it.
    sa.UniqueConstraint("job_id", "epoch", "call_no"),
    **MYSQL_TABLE,
)
