"""What a database says about its tables, for comparison, and the largest values that they take."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from engine.migrations.scope import TABLES
from engine.usage.models import CostUsd
from outbox.base.types import BinaryUuid, UtcDateTime


def described(engine: sa.Engine) -> dict[str, Any]:
    """Everything about our tables that the database can tell: columns in order, keys, indexes, character sets."""
    inspector = sa.inspect(engine)
    present = sorted(TABLES.intersection(inspector.get_table_names()))
    return {
        table: {
            "columns": [_column(engine, column) for column in inspector.get_columns(table)],
            "primary key": inspector.get_pk_constraint(table),
            "unique": _by_name(inspector.get_unique_constraints(table)),
            "indexes": _by_name(inspector.get_indexes(table)),
            "foreign keys": inspector.get_foreign_keys(table),
            "checks": inspector.get_check_constraints(table),
            "options": inspector.get_table_options(table)
            if engine.dialect.name != "sqlite"
            else None,
        }
        for table in present
    }


def _column(engine: sa.Engine, column: Any) -> tuple[Any, ...]:
    type_ = column["type"].compile(engine.dialect)
    rest = (column["nullable"], column["default"], column.get("autoincrement"))
    return (column["name"], type_, *rest)


def _by_name(items: Any) -> list[Any]:
    return sorted(items, key=lambda item: str(item["name"]))


def largest(column: sa.Column[Any]) -> Any:
    """The largest value that the column's model allows."""
    for kind, value in LARGEST.items():
        if isinstance(column.type, kind):
            return value
    length = getattr(column.type, "length", None) or 100_000
    if isinstance(column.type, sa.LargeBinary):
        return b"\xff" * length
    assert isinstance(column.type, sa.String), column
    is_ascii = getattr(column.type.dialect_impl(MYSQL), "charset", None) == "ascii"
    return ("~" if is_ascii else "\U0001f393") * length


MYSQL = sa.make_url("mysql+pymysql://").get_dialect()()
LARGEST: dict[type[Any], Any] = {
    BinaryUuid: UUID(int=2**128 - 1),
    UtcDateTime: datetime(2999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    CostUsd: Decimal("999999999.999999999"),
    sa.BigInteger: 2**63 - 1,
    sa.Integer: 2**31 - 1,
    sa.Double: 1 - 2**-53,
}
