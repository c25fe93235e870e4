"""One table with a column of every type, and the few things tests do with it."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from outbox.base.ids import new_id
from outbox.base.tables import MYSQL_TABLE
from outbox.base.types import (
    BinaryUuid,
    UtcDateTime,
    ascii_text,
    digest_bytes,
    exact_text,
    long_bytes,
    long_text,
)

NOTES = sa.Table(
    "note",
    sa.MetaData(),
    sa.Column("id", BinaryUuid, primary_key=True),
    sa.Column("digest", digest_bytes(), unique=True),
    sa.Column("kind", ascii_text(20)),
    sa.Column("title", exact_text(20)),
    sa.Column("body", long_text()),
    sa.Column("raw", long_bytes()),
    sa.Column("at", UtcDateTime),
    sa.Column("score", sa.BigInteger),
    sa.Column("n", sa.Integer),
    # a reserved word on MySQL and PostgreSQL
    sa.Column("window", sa.Integer),
    **MYSQL_TABLE,
)


def write(conn: sa.Connection, **values: Any) -> Any:
    """Insert one row and return its id."""
    row = {"id": new_id()} | values
    conn.execute(sa.insert(NOTES), row)
    return row["id"]


def read(conn: sa.Connection, column: str = "n") -> list[Any]:
    """The values of a column, in the order of ids."""
    return list(conn.execute(sa.select(NOTES.c[column]).order_by(NOTES.c.id)).scalars())


def count(conn: sa.Connection) -> int:
    return int(conn.execute(sa.select(sa.func.count()).select_from(NOTES)).scalar_one())


def add_one(conn: sa.Connection, note: Any) -> int:
    """Raise `n` of a row by one; returns the row count."""
    raised = sa.update(NOTES).where(NOTES.c.id == note).values(n=NOTES.c.n + 1)
    return conn.execute(raised).rowcount
