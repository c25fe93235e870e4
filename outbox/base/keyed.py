"""Statements about many rows that are named by their keys, compiled once.

SQLAlchemy expands ``IN`` anew for each list: for a hundred rows that costs more than the database does. Here
the statement is compiled once per dialect with a hole where the keys go. Keys are ids and numbers of ours, so
they are written into the text (PostgreSQL takes them as one array); everything else stays a parameter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from outbox.base.bulk import binder, positional, reader

#: Ids, or ids by the number that must stand beside them.
Keys = Sequence[UUID] | Mapping[int, Sequence[UUID]]


class _Hole(FunctionElement[bool]):
    type = sa.Boolean()
    inherit_cache = True

    def self_group(self, against: Any = None) -> Any:
        """It is a condition already: "= 1" behind it would keep MySQL and SQLite from their index."""
        return self


def one_of(column: sa.ColumnElement[UUID]) -> sa.ColumnElement[bool]:
    """``column`` is one of the keys; for WHERE, once per statement."""
    return _Hole(column)


def pair_of(column: sa.ColumnElement[UUID], number: sa.ColumnElement[int]) -> sa.ColumnElement[bool]:
    """``column`` is one of the keys under ``number``; for WHERE, once per statement."""
    return _Hole(column, number)


def words(*values: str) -> list[sa.ColumnElement[str]]:
    """Names of ours as a list in the text, for ``IN`` in such a statement: SQLAlchemy expands any other."""
    assert all(re.fullmatch(r"[a-z_]+", value) for value in values)
    return [sa.literal_column(f"'{value}'") for value in values]


@compiles(_Hole)
def _hole(element: Any, compiler: Any, **kw: Any) -> str:
    return f"/*keys {' '.join(compiler.process(column, **kw) for column in element.clauses)}*/"


@dataclass(frozen=True, slots=True)
class _Compiled:
    """One dialect's text around the keys and the parameters."""

    head: str
    column: str
    number: str | None
    tail: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    fixed: Mapping[str, Any]
    binders: Mapping[str, Callable[[Any], Any] | None]
    readers: tuple[tuple[int, Callable[[Any], Any]], ...]
    arrays: bool

    def statement(self, keys: Keys, values: Mapping[str, Any]) -> tuple[str, tuple[Any, ...]]:
        text, arrays = self._condition(keys)
        given = {**self.fixed, **values}
        head = [self._bound(name, given) for name in self.before]
        return self.head + text + self.tail, (*head, *arrays, *[self._bound(name, given) for name in self.after])

    def _condition(self, keys: Keys) -> tuple[str, list[str]]:
        if self.number is None:
            assert isinstance(keys, Sequence)
            text, array = self._among(keys)
            return text, [array] if self.arrays else []
        assert isinstance(keys, Mapping)
        groups = [(number, *self._among(ids)) for number, ids in keys.items()]
        text = " OR ".join(f"({self.number} = {int(number)} AND {among})" for number, among, _ in groups)
        return f"({text or '1 = 0'})", [array for *_, array in groups] if self.arrays else []

    def _among(self, ids: Sequence[UUID]) -> tuple[str, str]:
        if self.arrays:
            # Of one length or another, the text is the same: the server plans it once.
            return f"{self.column} = ANY(CAST(%s AS UUID[]))", "{" + ",".join([i.hex for i in ids]) + "}"
        return self.column + " IN (X'" + "',X'".join([i.hex for i in ids]) + "')", ""

    def _bound(self, name: str, values: Mapping[str, Any]) -> Any:
        process = self.binders[name]
        return values[name] if process is None else process(values[name])

    def read(self, row: Sequence[Any]) -> list[Any]:
        values = list(row)
        for index, process in self.readers:
            values[index] = process(values[index])
        return values


class Keyed:
    """A SELECT, UPDATE or DELETE with one :func:`one_of` or :func:`pair_of` in its WHERE."""

    def __init__(self, statement: sa.Select[Any] | sa.Update | sa.Delete) -> None:
        self.statement = statement
        self._by_dialect: dict[str, _Compiled] = {}

    def execute(self, conn: sa.Connection, keys: Keys, **values: Any) -> int:
        """Run it for ``keys``, of which there is at least one; returns the row count."""
        return self._run(conn, self._compiled(conn.dialect), keys, values).rowcount

    def fetch(self, conn: sa.Connection, keys: Keys, **values: Any) -> list[list[Any]]:
        """Run a SELECT for ``keys``, of which there is at least one; rows in the order of its columns."""
        compiled = self._compiled(conn.dialect)
        return [compiled.read(row) for row in self._run(conn, compiled, keys, values)]

    @staticmethod
    def _run(
        conn: sa.Connection, compiled: _Compiled, keys: Keys, values: Mapping[str, Any]
    ) -> sa.CursorResult[Any]:
        return conn.exec_driver_sql(*compiled.statement(keys, values))

    # -------------------------------------------------------------- compiling, once per dialect

    def _compiled(self, dialect: sa.Dialect) -> _Compiled:
        key = f"{dialect.name}+{dialect.driver}"
        found = self._by_dialect.get(key)
        if found is None:
            found = self._by_dialect[key] = self._compile(dialect)
        return found

    def _compile(self, dialect: sa.Dialect) -> _Compiled:
        style = positional(dialect)
        compiled: Any = self.statement.compile(dialect=style)
        found = re.fullmatch(r"(.*)/\*keys (\S+)(?: (\S+))?\*/(.*)", str(compiled), re.DOTALL)
        assert found is not None, "the statement has no place for its keys"
        head, column, number, tail = found.groups()
        names = tuple(compiled.positiontup or ())
        count = head.count("?" if dialect.name == "sqlite" else "%s")
        return _Compiled(
            head, column, number, tail, names[:count], names[count:],
            fixed={name: compiled.binds[name].value for name in names if not compiled.binds[name].required},
            binders={name: binder(compiled.binds[name].type, style) for name in names},
            readers=self._readers(dialect),
            arrays=dialect.name == "postgresql",
        )  # fmt: skip

    def _readers(self, dialect: sa.Dialect) -> tuple[tuple[int, Callable[[Any], Any]], ...]:
        if not isinstance(self.statement, sa.Select):
            return ()
        readers = [reader(column.type, dialect) for column in self.statement.selected_columns]
        return tuple((index, process) for index, process in enumerate(readers) if process is not None)
