"""What is different between tables and models, in words."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext

from engine.migrations.scope import METADATA, TABLES


def differences(context: MigrationContext) -> list[str]:
    """One sentence for each difference; the context's connection is read only."""
    found = [_sentence(difference) for difference in compare_metadata(context, METADATA)]
    conn = context.connection
    assert conn is not None, "a comparison needs a connection"
    if conn.dialect.name in ("mysql", "mariadb"):
        found += [text for text in _character_sets(conn) if not _mentioned(text, found)]
    return sorted(found)


def _sentence(difference: Any) -> str:
    if isinstance(difference, list):
        # several changes of one column come in a list
        return "; ".join(_sentence(part) for part in difference)
    kind, *parts = difference
    verb, _, noun = kind.partition("_")
    if verb == "add":
        return f"{_named(noun, parts)} is missing"
    if verb == "remove":
        return f"{_named(noun, parts)} is not in the models"
    _, table, column, _, have, want = parts[:6]
    return f"{table}.{column}: {noun} is {have!r}, should be {want!r}"


def _named(noun: str, parts: list[Any]) -> str:
    item = parts[-1]
    if noun == "column":
        return f"column {parts[-2]}.{item.name}"
    table = getattr(item, "table", None)
    return f"{noun} {item.name}" + ("" if table is None else f" of {table.name}")


_COLLATIONS = sa.text(
    "SELECT table_name, column_name, collation_name FROM information_schema.columns "
    "WHERE table_schema = DATABASE() AND collation_name IS NOT NULL"
)


def _character_sets(conn: sa.Connection) -> list[str]:
    """Alembic sees only those that a column names itself; a column with a wrong one loses text (DB-9)."""
    return [
        f"{table}.{column}: collation is {have}, should be {want}"
        for table, column, have in conn.execute(_COLLATIONS)
        if (want := _collation(conn, table, column)) not in (None, have)
    ]


def _mentioned(sentence: str, found: list[str]) -> bool:
    place = sentence.partition(":")[0]
    return any(other.startswith(f"{place}:") for other in found)


def _collation(conn: sa.Connection, table: str, column: str) -> str | None:
    if table not in TABLES or column not in METADATA.tables[table].c:
        return None
    wanted = METADATA.tables[table].c[column].type.dialect_impl(conn.dialect)
    return getattr(wanted, "collation", None)
