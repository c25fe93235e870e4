"""What statements put together as text share: values of our column types at the border of every driver."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from outbox.base.types import BinaryUuid

Process = Callable[[Any], Any]


def positional(dialect: sa.Dialect) -> sa.Dialect:
    """The same dialect with positional parameters, which is what text put together by us needs."""
    style = "qmark" if dialect.name == "sqlite" else "format"
    return type(dialect)(paramstyle=style)  # type: ignore[call-arg]


def storable(text: str) -> str:
    """``text`` without NUL and lone surrogates, which some databases and drivers refuse: for what people read."""
    return text.replace("\x00", "").encode("utf-8", "replace").decode()


def placeholder(dialect: sa.Dialect) -> str:
    """How :func:`positional` writes a parameter."""
    return "?" if dialect.name == "sqlite" else "%s"


def send(conn: sa.Connection, statement: str, parameters: Iterable[Any]) -> sa.CursorResult[Any]:
    """Run a text of :func:`positional` in the caller's transaction."""
    if conn.dialect.driver == "asyncpg":
        statement = _numbered(statement)
    return conn.exec_driver_sql(statement, tuple(parameters))


def binder(type_: Any, dialect: sa.Dialect) -> Process | None:
    """What turns a value of ``type_`` into the driver's; None when it goes as it is."""
    if isinstance(type_, BinaryUuid):
        # The hottest of all: without the layers of a type decorator.
        return None if dialect.name == "postgresql" else _uuid_bytes
    process: Process | None = type_.dialect_impl(dialect).bind_processor(dialect)
    return process


def reader(type_: Any, dialect: sa.Dialect) -> Process | None:
    """What turns the driver's value into one of ``type_``; None when it is that already."""
    if isinstance(type_, BinaryUuid):
        return None if dialect.name == "postgresql" else _uuid
    process: Process | None = type_.dialect_impl(dialect).result_processor(dialect, None)
    return process


def _uuid_bytes(value: UUID | None) -> bytes | None:
    return None if value is None else value.bytes


def _uuid(value: bytes | None) -> UUID | None:
    return None if value is None else UUID(bytes=value)


def _numbered(statement: str) -> str:
    """The statement with ``$1``, ``$2``, ... for its placeholders: asyncpg knows no others."""
    first, *others = statement.split("%s")
    return first + "".join(f"${number}{text}" for number, text in enumerate(others, 1))
