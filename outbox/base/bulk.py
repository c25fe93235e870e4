"""Many rows in one INSERT, compiled once.

SQLAlchemy compiles a multi-row VALUES anew for each number of rows; at a hundred rows that costs more than
the database does. Here the row's VALUES group is compiled once per dialect and repeated as text; values go
through the same column types as ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import sqlalchemy as sa

#: Rows a statement holds at most: keeps packets far below max_allowed_packet and parameters below limits.
MAX_ROWS = 500
_MAX_PARAMETERS = 30_000

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Compiled:
    prefix: str
    group: str
    suffix: str
    names: tuple[str, ...]
    processors: tuple[Callable[[Any], Any] | None, ...]

    def parameters(self, rows: Iterable[Row], shared: Row) -> tuple[Any, ...]:
        columns = list(zip(self.names, self.processors, strict=True))
        return tuple(_value(row, shared, name, process) for row in rows for name, process in columns)


def _value(row: Row, shared: Row, name: str, process: Callable[[Any], Any] | None) -> Any:
    value = row[name] if name in row else shared[name]
    return process(value) if process is not None else value


class RowInsert:
    """An INSERT of any number of rows into ``table``.

    ``expressions`` gives columns whose value is SQL (the database's time, say); their bound parameters are
    taken from each row, or from the values shared by all rows. With ``unless_exists`` a row whose value of
    that unique column is there already is left out without an error and without a change (design 7); a row
    that repeats another key is an error on PostgreSQL and SQLite, while MySQL leaves it out as well.
    """

    def __init__(
        self,
        table: sa.Table,
        columns: Sequence[str],
        *,
        expressions: Mapping[str, sa.ColumnElement[Any]] | None = None,
        unless_exists: str | None = None,
    ) -> None:
        self._table = table
        self._values: dict[str, Any] = {name: sa.bindparam(name) for name in columns} | dict(expressions or {})
        self._unless_exists = unless_exists
        self._by_dialect: dict[str, _Compiled] = {}

    def execute(self, conn: sa.Connection, rows: Sequence[Row], **shared: Any) -> int:
        """Insert ``rows`` in the caller's transaction; returns the driver's row count."""
        compiled = self._compiled(conn.dialect)
        step = max(1, min(MAX_ROWS, _MAX_PARAMETERS // max(1, len(compiled.names))))
        return sum(
            self._insert(conn, compiled, rows[start : start + step], shared)
            for start in range(0, len(rows), step)
        )

    def _insert(self, conn: sa.Connection, compiled: _Compiled, rows: Sequence[Row], shared: Row) -> int:
        statement = compiled.prefix + ", ".join([compiled.group] * len(rows)) + compiled.suffix
        return conn.exec_driver_sql(statement, compiled.parameters(rows, shared)).rowcount

    def _compiled(self, dialect: sa.Dialect) -> _Compiled:
        found = self._by_dialect.get(dialect.name)
        if found is None:
            found = self._by_dialect[dialect.name] = self._compile(dialect)
        return found

    def _compile(self, dialect: sa.Dialect) -> _Compiled:
        positional = _positional(dialect)
        compiled = self._insert_statement.compile(dialect=positional)
        head, values, group = str(compiled).partition(" VALUES ")
        names = tuple(compiled.positiontup or ())
        processors = tuple(
            compiled.binds[name].type.dialect_impl(positional).bind_processor(positional)
            for name in names
        )
        return _Compiled(head + values, group, self._suffix(dialect), names, processors)

    @cached_property
    def _insert_statement(self) -> sa.Insert:
        typed = {
            name: sa.bindparam(name, type_=self._table.c[name].type) if isinstance(v, sa.BindParameter) else v
            for name, v in self._values.items()
        }
        return sa.insert(self._table).values(typed).inline()

    def _suffix(self, dialect: sa.Dialect) -> str:
        if self._unless_exists is None:
            return ""
        if dialect.name in ("mysql", "mariadb"):
            # A no-op update swallows only the duplicate; INSERT IGNORE would also cut long text (CI-4).
            return f" ON DUPLICATE KEY UPDATE {self._unless_exists} = {self._table.name}.{self._unless_exists}"
        return f" ON CONFLICT ({self._unless_exists}) DO NOTHING"


def _positional(dialect: sa.Dialect) -> sa.Dialect:
    """The same dialect with positional parameters, which is what a repeated VALUES group needs."""
    style = "qmark" if dialect.name == "sqlite" else "format"
    return type(dialect)(paramstyle=style)  # type: ignore[call-arg]
