"""Column types that mean the same on SQLite, MariaDB, MySQL and PostgreSQL."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects import mysql

from outbox.base.errors import NaiveDatetimeError

_MYSQL = ("mysql", "mariadb")


class BinaryUuid(sa.types.TypeDecorator[UUID]):
    """A UUID: 16 bytes everywhere but on PostgreSQL, which has its own type.

    Not ``sa.Uuid``: that differs between ``mysql`` and ``mariadb`` URLs of one server (design 5).
    """

    impl = sa.LargeBinary(16)
    cache_ok = True

    def load_dialect_impl(self, dialect: sa.Dialect) -> sa.types.TypeEngine[Any]:
        if dialect.name == "postgresql":
            return dialect.type_descriptor(sa.UUID(as_uuid=True))
        if dialect.name in _MYSQL:
            return dialect.type_descriptor(mysql.BINARY(16))
        return dialect.type_descriptor(sa.LargeBinary(16))

    def process_bind_param(self, value: UUID | None, dialect: sa.Dialect) -> Any:
        return value if value is None or dialect.name == "postgresql" else value.bytes

    def process_result_value(self, value: Any, dialect: sa.Dialect) -> UUID | None:
        return value if value is None or isinstance(value, UUID) else UUID(bytes=bytes(value))


class UtcDateTime(sa.types.TypeDecorator[datetime]):
    """An instant in UTC with six digits on every database; naive input is refused (DB-7, DB-8)."""

    impl = sa.DateTime
    cache_ok = True

    def load_dialect_impl(self, dialect: sa.Dialect) -> sa.types.TypeEngine[Any]:
        if dialect.name in _MYSQL:
            return dialect.type_descriptor(mysql.DATETIME(fsp=6))
        return dialect.type_descriptor(sa.DateTime(timezone=dialect.name == "postgresql"))

    def process_bind_param(self, value: datetime | None, dialect: sa.Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise NaiveDatetimeError(f"{value!r} has no time zone; give an aware datetime")
        utc = value.astimezone(UTC)
        return utc if dialect.name == "postgresql" else utc.replace(tzinfo=None)

    def process_result_value(self, value: datetime | None, dialect: sa.Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def exact_text(length: int) -> sa.types.TypeEngine[Any]:
    """Text compared byte for byte, at most ``length`` characters; lengths are checked in code too (DB-6).

    MySQL and MariaDB compare without trailing spaces: what decides whose a row is must not end in one.
    """
    return sa.String(length).with_variant(
        mysql.VARCHAR(length, charset="utf8mb4", collation="utf8mb4_bin"), *_MYSQL
    )


class Name(sa.String):
    """Text that comes from us and never from a caller, so that it may stand in a statement or a log."""


def ascii_text(length: int) -> sa.types.TypeEngine[Any]:
    """A name of ours: ASCII, compared byte for byte, small in indexes."""
    return Name(length).with_variant(
        mysql.VARCHAR(length, charset="ascii", collation="ascii_bin"), *_MYSQL
    )


def long_text() -> sa.types.TypeEngine[Any]:
    """Text of up to 16 MiB (MySQL's TEXT ends at 64 KiB: WL-15)."""
    return sa.Text().with_variant(mysql.MEDIUMTEXT(charset="utf8mb4", collation="utf8mb4_bin"), *_MYSQL)


def long_bytes() -> sa.types.TypeEngine[Any]:
    """Bytes of up to 16 MiB, returned exactly as stored (PC-6)."""
    return sa.LargeBinary().with_variant(mysql.MEDIUMBLOB(), *_MYSQL)


def digest_bytes() -> sa.types.TypeEngine[Any]:
    """A SHA-256."""
    return sa.LargeBinary(32).with_variant(mysql.BINARY(32), *_MYSQL)
