"""A statement compiled once per dialect and sent as text from then on.

For the few statements of the hot path: what SQLAlchemy does per execution (cache keys, ``IN`` lists, result
rows) takes longer than the database. Values go through the same column types as ever, in both directions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from outbox.base.text import Process, binder, positional, reader, send

Statement = sa.Select[Any] | sa.Update | sa.Delete


@dataclass(frozen=True, slots=True)
class Compiled:
    """One dialect's text, the names of its parameters in order, and how values cross the border."""

    dialect: str
    text: str
    names: tuple[str, ...]
    fixed: Mapping[str, Any]
    binders: tuple[Process | None, ...]
    readers: tuple[tuple[int, Process], ...]

    def bound(self, values: Mapping[str, Any]) -> tuple[Any, ...]:
        """The parameters in order, as the driver takes them."""
        given = {**self.fixed, **values}
        return tuple(
            given[name] if process is None else process(given[name])
            for name, process in zip(self.names, self.binders, strict=True)
        )

    def read(self, row: Sequence[Any]) -> list[Any]:
        """A row of the driver's with values of the columns' types."""
        values = list(row)
        for index, process in self.readers:
            values[index] = process(values[index])
        return values


class Prepared:
    """A SELECT, UPDATE or DELETE that is run often."""

    def __init__(self, statement: Statement) -> None:
        self.statement = statement
        self._by_dialect: dict[str, Compiled] = {}

    def execute(self, conn: sa.Connection, **values: Any) -> int:
        """Run it in the caller's transaction; returns the row count."""
        compiled = self.compiled(conn.dialect)
        return send(conn, compiled.text, compiled.bound(values)).rowcount

    def fetch(self, conn: sa.Connection, **values: Any) -> list[list[Any]]:
        """Run a SELECT; rows in the order of its columns."""
        compiled = self.compiled(conn.dialect)
        return [compiled.read(row) for row in send(conn, compiled.text, compiled.bound(values))]

    def compiled(self, dialect: sa.Dialect) -> Compiled:
        """The statement in ``dialect``, compiled at the first call."""
        key = f"{dialect.name}+{dialect.driver}"
        found = self._by_dialect.get(key)
        if found is None:
            found = self._by_dialect[key] = self._compile(dialect)
        return found

    def _compile(self, dialect: sa.Dialect) -> Compiled:
        style = positional(dialect)
        compiled: Any = self.statement.compile(dialect=style)
        names = tuple(compiled.positiontup or ())
        binds = [compiled.binds[name] for name in names]
        return Compiled(
            dialect=dialect.name,
            text=str(compiled),
            names=names,
            fixed={name: bind.value for name, bind in zip(names, binds, strict=True) if not bind.required},
            binders=tuple(binder(bind.type, style) for bind in binds),
            readers=self._readers(dialect),
        )

    def _readers(self, dialect: sa.Dialect) -> tuple[tuple[int, Process], ...]:
        if not isinstance(self.statement, sa.Select):
            return ()
        readers = [reader(column.type, dialect) for column in self.statement.selected_columns]
        return tuple((index, process) for index, process in enumerate(readers) if process is not None)
