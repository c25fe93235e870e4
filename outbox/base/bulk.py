"""Many rows in one INSERT, compiled once.

SQLAlchemy compiles a multi-row VALUES anew for each number of rows; at a hundred rows that costs more than
the database does. Here the row's VALUES group is compiled once per dialect and repeated as text; values go
through the same column types as ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from outbox.base.types import BinaryUuid

#: Rows a statement holds at most: keeps packets far below max_allowed_packet and parameters below limits.
MAX_ROWS = 500
_MAX_PARAMETERS = 30_000

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Compiled:
    """One dialect's text: the VALUES group as literal pieces around the names of its values."""

    prefix: str
    pieces: tuple[str, ...]
    names: tuple[str, ...]
    suffix: str
    placeholder: str
    processors: Mapping[str, Callable[[Any], Any] | None]
    results: tuple[Callable[[Any], Any] | None, ...]

    def group(self, shared: Mapping[str, int]) -> tuple[str, list[str]]:
        """The VALUES group with the shared numbers written out, and the names that stay parameters."""
        text, open_names = [self.pieces[0]], []
        for name, piece in zip(self.names, self.pieces[1:], strict=True):
            if name in shared:
                # A number of ours, the same for all rows: as text it costs no parameter per row.
                text.append(str(int(shared[name])))
            else:
                text.append(self.placeholder)
                open_names.append(name)
            text.append(piece)
        return "".join(text), open_names

    def parameters(self, rows: Iterable[Row], names: Sequence[str]) -> tuple[Any, ...]:
        columns = [(name, self.processors[name]) for name in names]
        return tuple(
            row[name] if process is None else process(row[name]) for row in rows for name, process in columns
        )


class RowInsert:
    """An INSERT of any number of rows into ``table``.

    ``columns`` take a parameter from each row. ``expressions`` gives columns whose value is SQL (the
    database's time, say): their bound parameters come from each row too, or are numbers shared by all rows.
    ``constants`` are the same for every row ever. With ``unless_exists`` a row whose value of that unique
    column is there already is left out without an error and without a change (design 7); a row that repeats
    another key is an error on PostgreSQL and SQLite, while MySQL leaves it out as well.
    """

    def __init__(
        self,
        table: sa.Table,
        columns: Sequence[str],
        *,
        expressions: Mapping[str, sa.ColumnElement[Any]] | None = None,
        constants: Mapping[str, str | int] | None = None,
        unless_exists: str | None = None,
        returning: Sequence[str] = (),
    ) -> None:
        self._table = table
        self._columns = tuple(columns)
        self._expressions = dict(expressions or {})
        self._constants = dict(constants or {})
        self._unless_exists = unless_exists
        self._returning = tuple(returning)
        self._by_dialect: dict[str, _Compiled] = {}

    def execute(self, conn: sa.Connection, rows: Sequence[Row], **shared: int) -> int:
        """Insert ``rows`` in the caller's transaction; returns the driver's row count."""
        return sum(result.rowcount for result in self._run(conn, rows, shared))

    def returns(self, conn: sa.Connection) -> bool:
        """Whether this database can answer an INSERT with its rows; MySQL cannot."""
        return bool(self._returning) and conn.dialect.insert_returning

    def fetch(self, conn: sa.Connection, rows: Sequence[Row], **shared: int) -> list[tuple[Any, ...]]:
        """Insert ``rows`` and return the ``returning`` columns of each that the database reports.

        A row left out because of ``unless_exists`` is not reported, or, on MariaDB, as it stands there.
        """
        processors = self._compiled(conn.dialect).results
        return [
            tuple(v if p is None else p(v) for v, p in zip(row, processors, strict=True))
            for result in self._run(conn, rows, shared)
            for row in result.fetchall()
        ]

    def _run(
        self, conn: sa.Connection, rows: Sequence[Row], shared: Mapping[str, int]
    ) -> Iterator[sa.CursorResult[Any]]:
        compiled = self._compiled(conn.dialect)
        group, names = compiled.group(shared)
        step = max(1, min(MAX_ROWS, _MAX_PARAMETERS // max(1, len(names))))
        for start in range(0, len(rows), step):
            part = rows[start : start + step]
            statement = compiled.prefix + ", ".join([group] * len(part)) + compiled.suffix
            if conn.dialect.driver == "asyncpg":
                statement = _numbered(statement)
            yield conn.exec_driver_sql(statement, compiled.parameters(part, names))

    # -------------------------------------------------------------- compiling, once per dialect

    def _compiled(self, dialect: sa.Dialect) -> _Compiled:
        key = f"{dialect.name}+{dialect.driver}{dialect.insert_returning}"
        found = self._by_dialect.get(key)
        if found is None:
            found = self._by_dialect[key] = self._compile(dialect)
        return found

    def _compile(self, dialect: sa.Dialect) -> _Compiled:
        style = positional(dialect)
        compiled = sa.insert(self._table).values(self._values()).inline().compile(dialect=style)
        head, values, group = str(compiled).partition(" VALUES ")
        placeholder = "?" if dialect.name == "sqlite" else "%s"
        names = tuple(compiled.positiontup or ())
        answered = self._returning if dialect.insert_returning else ()
        return _Compiled(
            prefix=head + values,
            pieces=tuple(group.split(placeholder)),
            names=names,
            suffix=self._on_conflict(dialect) + (f" RETURNING {', '.join(answered)}" if answered else ""),
            placeholder=placeholder,
            processors={name: binder(compiled.binds[name].type, style) for name in names},
            results=tuple(reader(self._table.c[name].type, dialect) for name in answered),
        )

    def _values(self) -> dict[str, Any]:
        typed = {name: sa.bindparam(name, type_=self._table.c[name].type) for name in self._columns}
        fixed: dict[str, Any] = {
            name: sa.literal_column(str(value) if isinstance(value, int) else f"'{value}'")
            for name, value in self._constants.items()
        }
        return {**typed, **self._expressions, **fixed}

    def _on_conflict(self, dialect: sa.Dialect) -> str:
        if self._unless_exists is None:
            return ""
        if dialect.name in ("mysql", "mariadb"):
            # A no-op update swallows only the duplicate; INSERT IGNORE would also cut long text (CI-4).
            return f" ON DUPLICATE KEY UPDATE {self._unless_exists} = {self._table.name}.{self._unless_exists}"
        return f" ON CONFLICT ({self._unless_exists}) DO NOTHING"


def binder(type_: Any, dialect: sa.Dialect) -> Callable[[Any], Any] | None:
    """What turns a value of ``type_`` into the driver's; None when it goes as it is."""
    if isinstance(type_, BinaryUuid):
        # The hottest of all: without the layers of a type decorator.
        return None if dialect.name == "postgresql" else _uuid_bytes
    process: Callable[[Any], Any] | None = type_.dialect_impl(dialect).bind_processor(dialect)
    return process


def _uuid_bytes(value: UUID | None) -> bytes | None:
    return None if value is None else value.bytes


def reader(type_: Any, dialect: sa.Dialect) -> Callable[[Any], Any] | None:
    """What turns the driver's value into one of ``type_``; None when it is that already."""
    if isinstance(type_, BinaryUuid):
        return None if dialect.name == "postgresql" else _uuid
    process: Callable[[Any], Any] | None = type_.dialect_impl(dialect).result_processor(dialect, None)
    return process


def _uuid(value: bytes | None) -> UUID | None:
    return None if value is None else UUID(bytes=value)


def positional(dialect: sa.Dialect) -> sa.Dialect:
    """The same dialect with positional parameters, which is what text put together by us needs."""
    style = "qmark" if dialect.name == "sqlite" else "format"
    return type(dialect)(paramstyle=style)  # type: ignore[call-arg]


def _numbered(statement: str) -> str:
    """The statement with ``$1``, ``$2``, ... for its placeholders: asyncpg knows no others."""
    first, *others = statement.split("%s")
    return first + "".join(f"${number}{text}" for number, text in enumerate(others, 1))
