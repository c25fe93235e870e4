"""Many rows in one INSERT, compiled once.

SQLAlchemy compiles a multi-row VALUES anew for each number of rows; at a hundred rows that costs more than
the database does. Here the row's VALUES group is compiled once per dialect and repeated as text; values go
through the same column types as ever.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import sqlalchemy as sa

from outbox.base.later import Answer, write_later
from outbox.base.text import Process, binder, placeholder, positional, reader, send
from outbox.base.types import Name

#: Rows a statement holds at most: keeps parameters below limits.
MAX_ROWS = 500
#: Bytes of a column that may be large which a statement holds at most, unless one row has more: MySQL and MariaDB
#: refuse a packet of more than 16 MB by default, and escaping may double it.
MAX_BYTES = 4_000_000
_MAX_PARAMETERS = 30_000

Row = Mapping[str, Any]

#: Texts that mean the same inside quotes in every SQL.
_PLAIN = re.compile(r"[A-Za-z0-9_.@:/-]*")
#: From so many rows on it pays to look for what they share.
_FEW = 8
#: Texts for fewer rows that are kept.
_TEXTS = 64


@dataclass(frozen=True, slots=True)
class _Compiled:
    """One dialect's text: the VALUES group as literal pieces around the names of its values."""

    prefix: str
    pieces: tuple[str, ...]
    names: tuple[str, ...]
    suffix: str
    placeholder: str
    processors: Mapping[str, Process | None]
    results: tuple[Process | None, ...]
    ours: frozenset[str]

    def many(self, rows: Sequence[Row], shared: Mapping[str, int]) -> tuple[str, Iterable[Any]]:
        """The text for many rows and its parameters, row by row."""
        columns = {name: [row[name] for row in rows] for name in self.names if name not in shared}
        text, names = self.text(len(rows), _numbers(shared) | self._shared_by_all(columns))
        parameters = [self._bound(name, columns[name]) for name in names]
        return text, chain.from_iterable(zip(*parameters, strict=True))

    def few(self, rows: Sequence[Row], names: Sequence[str]) -> list[Any]:
        """The parameters ``names`` of a few rows, whose text was made before."""
        bound = [(name, self.processors[name]) for name in names]
        return [row[name] if p is None else p(row[name]) for row in rows for name, p in bound]

    def text(self, count: int, written: Mapping[str, str]) -> tuple[str, list[str]]:
        """The statement for ``count`` rows, and the names that stay parameters of each."""
        parts, names = [self.pieces[0]], []
        for name, piece in zip(self.names, self.pieces[1:], strict=True):
            if name not in written:
                names.append(name)
            parts += (written.get(name, self.placeholder), piece)
        return self.prefix + ", ".join(["".join(parts)] * count) + self.suffix, names

    def _shared_by_all(self, columns: Mapping[str, list[Any]]) -> dict[str, str]:
        """What is the same in all rows, as text: it costs no parameter per row.

        Numbers and names of ours only. A caller's text stays a parameter, which no error message shows.
        """
        same = {name: values[0] for name, values in columns.items() if values.count(values[0]) == len(values)}
        written = {name: _written(value, name in self.ours) for name, value in same.items()}
        return {name: text for name, text in written.items() if text is not None}

    def _bound(self, name: str, values: list[Any]) -> Iterable[Any]:
        process = self.processors[name]
        return values if process is None else map(process, values)


def _numbers(shared: Mapping[str, int]) -> dict[str, str]:
    return {name: str(int(number)) for name, number in shared.items()}


def _written(value: Any, is_ours: bool) -> str | None:
    """``value`` in the text of a statement; None where it has to be a parameter."""
    if value is None:
        return "NULL"
    if type(value) is int:
        return str(value)
    return f"'{value}'" if is_ours and _PLAIN.fullmatch(value) else None


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
        bulky: str | None = None,
    ) -> None:
        """``bulky`` is the column whose values may be large; see :data:`MAX_BYTES`."""
        self._table = table
        self._columns = tuple(columns)
        self._expressions = dict(expressions or {})
        self._constants = dict(constants or {})
        self._unless_exists = unless_exists
        self._returning = tuple(returning)
        self._bulky = bulky
        self._by_dialect: dict[str, _Compiled] = {}
        self._texts: dict[tuple[Any, ...], tuple[str, list[str]]] = {}

    def execute(self, conn: sa.Connection, rows: Sequence[Row], **shared: int) -> int:
        """Insert ``rows`` in the caller's transaction; returns the driver's row count."""
        return sum(result.rowcount for result in self._run(conn, rows, shared))

    def write(self, conn: sa.Connection, rows: Sequence[Row], **shared: int) -> None:
        """Insert ``rows`` in the caller's transaction, perhaps only with its COMMIT (:mod:`outbox.base.later`)."""
        for statement, parameters in self._statements(conn, rows, shared):
            write_later(conn, statement, parameters)

    def returns(self, conn: sa.Connection) -> bool:
        """Whether this database can answer an INSERT with its rows; MySQL cannot."""
        return bool(self._returning) and conn.dialect.insert_returning

    def fetch(self, conn: sa.Connection, rows: Sequence[Row], **shared: int) -> list[tuple[Any, ...]]:
        """Insert ``rows`` and return the ``returning`` columns of each that the database reports.

        A row left out because of ``unless_exists`` is not reported, or, on MariaDB, as it stands there.
        """
        results = [result.fetchall() for result in self._run(conn, rows, shared)]
        return self._read(conn, results)

    def fetch_later(
        self, conn: sa.Connection, rows: Sequence[Row], **shared: int
    ) -> Callable[[], list[tuple[Any, ...]]]:
        """:meth:`write`, and what then gives the answer of :meth:`fetch`: after COMMIT at the latest."""
        answers = []
        for statement, parameters in self._statements(conn, rows, shared):
            answers.append(Answer())
            write_later(conn, statement, parameters, answer=answers[-1])
        return lambda: self._read(conn, [answer.rows for answer in answers])

    def _read(
        self, conn: sa.Connection, results: Iterable[Iterable[Sequence[Any]]]
    ) -> list[tuple[Any, ...]]:
        processors = self._compiled(conn.dialect).results
        return [
            tuple(v if p is None else p(v) for v, p in zip(row, processors, strict=True))
            for rows in results
            for row in rows
        ]

    def _run(
        self, conn: sa.Connection, rows: Sequence[Row], shared: Mapping[str, int]
    ) -> Iterator[sa.CursorResult[Any]]:
        for statement, parameters in self._statements(conn, rows, shared):
            yield send(conn, statement, parameters)

    def _statements(
        self, conn: sa.Connection, rows: Sequence[Row], shared: Mapping[str, int]
    ) -> Iterator[tuple[str, Iterable[Any]]]:
        compiled = self._compiled(conn.dialect)
        step = max(1, min(MAX_ROWS, _MAX_PARAMETERS // max(1, len(compiled.names))))
        for part in self._parts(rows, step):
            if len(part) >= _FEW:
                yield compiled.many(part, shared)
            else:
                text, names = self._text(compiled, len(part), shared)
                yield text, compiled.few(part, names)

    def _parts(self, rows: Sequence[Row], step: int) -> Iterator[Sequence[Row]]:
        if self._bulky is None:
            yield from (rows[start : start + step] for start in range(0, len(rows), step))
            return
        part: list[Row] = []
        size = 0
        for row in rows:
            more = len(row[self._bulky] or b"")
            if part and (len(part) == step or size + more > MAX_BYTES):
                yield part
                part, size = [], 0
            part.append(row)
            size += more
        if part:
            yield part

    def _text(self, compiled: _Compiled, count: int, shared: Mapping[str, int]) -> tuple[str, list[str]]:
        """The text for a few rows: the same each time, unless a test moves the clock."""
        key = (id(compiled), count, *shared.items())
        found = self._texts.get(key)
        if found is None:
            if len(self._texts) >= _TEXTS:
                self._texts.clear()
            found = self._texts[key] = compiled.text(count, _numbers(shared))
        return found

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
        names = tuple(compiled.positiontup or ())
        answered = self._returning if dialect.insert_returning else ()
        return _Compiled(
            prefix=head + values,
            pieces=tuple(group.split(placeholder(dialect))),
            names=names,
            suffix=self._on_conflict(dialect) + (f" RETURNING {', '.join(answered)}" if answered else ""),
            placeholder=placeholder(dialect),
            processors={name: binder(compiled.binds[name].type, style) for name in names},
            results=tuple(reader(self._table.c[name].type, dialect) for name in answered),
            ours=frozenset(name for name in names if isinstance(compiled.binds[name].type, Name)),
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
