"""What a database says about its tables, for comparison."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from engine.migrations.scope import TABLES


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
