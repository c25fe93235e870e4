"""Prepared statements about many rows, which are named by their keys.

The text has a hole where the keys go. They are ids and numbers of ours, so they are written into it
(PostgreSQL takes them as one array); everything else stays a parameter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from outbox.base.later import Answer, write_later
from outbox.base.prepared import Compiled, Prepared, Statement
from outbox.base.text import send

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
    """Names of ours as a list in the text, for ``IN`` in a prepared statement: any other list is a parameter."""
    assert all(re.fullmatch(r"[a-z_.]+", value) for value in values)
    return [sa.literal_column(f"'{value}'") for value in values]


@compiles(_Hole)
def _hole(element: Any, compiler: Any, **kw: Any) -> str:
    return f"/*keys {' '.join(compiler.process(column, **kw) for column in element.clauses)}*/"


class Keyed:
    """A prepared statement with one :func:`one_of` or :func:`pair_of` in its WHERE."""

    def __init__(self, statement: Statement) -> None:
        self.statement = statement
        self._prepared = Prepared(statement)

    def execute(self, conn: sa.Connection, keys: Keys, **values: Any) -> int:
        """Run it for ``keys`` in the caller's transaction; returns the row count."""
        return send(conn, *_with_keys(self._prepared.compiled(conn.dialect), keys, values)).rowcount

    def write(self, conn: sa.Connection, keys: Keys, *, expect: int | None = None, **values: Any) -> None:
        """Run it for ``keys`` in the caller's transaction, perhaps only with its COMMIT (:mod:`outbox.base.later`).

        ``expect`` rows are to be changed, or a :class:`~outbox.base.later.Shortfall` ends the transaction.
        """
        write_later(conn, *_with_keys(self._prepared.compiled(conn.dialect), keys, values), expect=expect)

    def fetch(self, conn: sa.Connection, keys: Keys, **values: Any) -> list[list[Any]]:
        """Run a SELECT for ``keys``; rows in the order of its columns."""
        compiled = self._prepared.compiled(conn.dialect)
        return [compiled.read(row) for row in send(conn, *_with_keys(compiled, keys, values))]

    def fetch_later(
        self, conn: sa.Connection, keys: Keys, *, expect: int | None = None, **values: Any
    ) -> Callable[[], list[list[Any]]]:
        """:meth:`fetch` as late as :meth:`write`: what is returned gives the rows, after COMMIT at the latest."""
        compiled, answer = self._prepared.compiled(conn.dialect), Answer()
        write_later(conn, *_with_keys(compiled, keys, values), expect=expect, answer=answer)
        return lambda: [compiled.read(row) for row in answer.rows]


# ------------------------------------------------------------------ the text


@dataclass(frozen=True, slots=True)
class _Parts:
    """The text around the keys, and how many parameters stand before them."""

    head: str
    column: str
    number: str | None
    tail: str
    before: int
    arrays: bool


@lru_cache(maxsize=256)
def _parts(text: str, dialect: str) -> _Parts:
    found = re.fullmatch(r"(.*)/\*keys (\S+)(?: (\S+))?\*/(.*)", text, re.DOTALL)
    assert found is not None, "the statement has no place for its keys"
    head, column, number, tail = found.groups()
    before = head.count("?" if dialect == "sqlite" else "%s")
    return _Parts(head, column, number, tail, before, arrays=dialect == "postgresql")


def _with_keys(compiled: Compiled, keys: Keys, values: Mapping[str, Any]) -> tuple[str, tuple[Any, ...]]:
    parts = _parts(compiled.text, compiled.dialect)
    condition, arrays = _condition(parts, keys)
    given = compiled.bound(values)
    return parts.head + condition + parts.tail, (*given[: parts.before], *arrays, *given[parts.before :])


def _condition(parts: _Parts, keys: Keys) -> tuple[str, list[str]]:
    if isinstance(keys, Mapping):
        groups = [f"({parts.number} = {int(number)} AND {_among(parts, ids)})" for number, ids in keys.items()]
        lists = [_array(ids) for ids in keys.values()] if parts.arrays else []
        return f"({' OR '.join(groups) or '1 = 0'})", lists
    return _among(parts, keys), [_array(keys)] if parts.arrays else []


def _among(parts: _Parts, ids: Sequence[UUID]) -> str:
    if parts.arrays:
        # The same text for any number of keys: the server plans it once.
        return f"{parts.column} = ANY(CAST(%s AS UUID[]))"
    return parts.column + " IN (X'" + "',X'".join([job_id.hex for job_id in ids]) + "')"


def _array(ids: Sequence[UUID]) -> str:
    return "{" + ",".join([job_id.hex for job_id in ids]) + "}"
