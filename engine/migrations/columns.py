"""Columns and their types as migrations write them, spelled out once per database.

They mirror ``outbox.base.types`` and are kept apart from it on purpose: those move on with the models, while a
released migration must make the same table for ever. A changed type is a new function here.
"""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql

Type = sa.types.TypeEngine[Any]

_MYSQL: Final = ("mysql", "mariadb")

#: Options of every table: the database's own character set may be latin1 (DB-9).
TABLE_OPTIONS: Final[dict[str, Any]] = {
    f"{dialect}_{option}": value
    for dialect in _MYSQL
    for option, value in (
        ("engine", "InnoDB"),
        ("charset", "utf8mb4"),
        ("collate", "utf8mb4_bin"),
    )
}


def uuid() -> Type:
    """A UUID: 16 bytes, or PostgreSQL's own type."""
    return (
        sa.LargeBinary(16)
        .with_variant(mysql.BINARY(16), *_MYSQL)
        .with_variant(postgresql.UUID(), "postgresql")
    )


def moment() -> Type:
    """An instant in UTC with six digits."""
    return (
        sa.DateTime()
        .with_variant(mysql.DATETIME(fsp=6), *_MYSQL)
        .with_variant(sa.DateTime(timezone=True), "postgresql")
    )


def text(length: int) -> Type:
    """Text compared byte for byte."""
    return sa.String(length).with_variant(
        mysql.VARCHAR(length, charset="utf8mb4", collation="utf8mb4_bin"), *_MYSQL
    )


def name(length: int) -> Type:
    """A name of ours: ASCII."""
    return sa.String(length).with_variant(
        mysql.VARCHAR(length, charset="ascii", collation="ascii_bin"), *_MYSQL
    )


def long_text() -> Type:
    """Text of up to 16 MiB."""
    return sa.Text().with_variant(
        mysql.MEDIUMTEXT(charset="utf8mb4", collation="utf8mb4_bin"), *_MYSQL
    )


def long_bytes() -> Type:
    """Bytes of up to 16 MiB."""
    return sa.LargeBinary().with_variant(mysql.MEDIUMBLOB(), *_MYSQL)


def digest() -> Type:
    """A SHA-256."""
    return sa.LargeBinary(32).with_variant(mysql.BINARY(32), *_MYSQL)


def dollars() -> Type:
    """US dollars to the billionth; on SQLite their number."""
    return sa.Numeric(18, 9).with_variant(sa.BigInteger(), "sqlite")


def column(name: str, type_: Type, *, null: bool = False) -> sa.Column[Any]:
    """A column that must have a value, unless ``null``; numbers are never counted up by the database."""
    return sa.Column(name, type_, nullable=null, autoincrement=False)
