"""One clock decides: the database's, in UTC, inside the statement (ground rule 3, WL-7, DB-13).

Durations cross the border as microseconds, instants do not. A :class:`DatabaseClock` adds an offset to
every duration it hands out; it is 0 in production, and tests move it instead of waiting.
"""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from outbox.base.types import UtcDateTime


class DatabaseClock:
    """Turns durations in ms into the microseconds that the time expressions below take."""

    def __init__(self) -> None:
        self._offset_us = 0

    def us(self, ms: float = 0) -> int:
        """``ms`` from now, as the bound value of :func:`moment`, :func:`stamp` or :func:`epoch_ms`."""
        return round(ms * 1000) + self._offset_us

    def advance(self, ms: float) -> None:
        """Move every later statement of this process ``ms`` into the future (tests and drills only)."""
        self._offset_us += round(ms * 1000)

    def read(self, conn: sa.Connection) -> datetime:
        """The database's present time, UTC."""
        return conn.execute(_READ, {"now_us": self.us()}).scalar_one()


class _Moment(FunctionElement[datetime]):
    """Now plus microseconds, for predicates: stands still within a statement."""

    type = UtcDateTime()
    inherit_cache = True


class _Stamp(FunctionElement[datetime]):
    """Now plus microseconds, for values: on PostgreSQL the clock of the moment, not of the statement."""

    type = UtcDateTime()
    inherit_cache = True


class _EpochMs(FunctionElement[int]):
    """Now plus microseconds, as whole milliseconds since 1970."""

    type = sa.BigInteger()
    inherit_cache = True


class _Shifted(FunctionElement[datetime]):
    """An instant, later by the time between two others."""

    type = UtcDateTime()
    inherit_cache = True


def moment(us: str = "now_us") -> sa.ColumnElement[datetime]:
    """Now plus the bound microseconds ``us``; for WHERE."""
    return _Moment(sa.bindparam(us, type_=sa.BigInteger()))


def stamp(us: str = "now_us") -> sa.ColumnElement[datetime]:
    """Now plus the bound microseconds ``us``; for SET and VALUES."""
    return _Stamp(sa.bindparam(us, type_=sa.BigInteger()))


def epoch_ms(us: str = "now_us") -> sa.ColumnElement[int]:
    """Now plus the bound microseconds ``us`` as milliseconds since 1970 (the unit of scores)."""
    return _EpochMs(sa.bindparam(us, type_=sa.BigInteger()))


def shifted(
    instant: sa.ColumnElement[datetime],
    *,
    since: sa.ColumnElement[datetime],
    until: sa.ColumnElement[datetime],
) -> sa.ColumnElement[datetime]:
    """``instant`` plus the time from ``since`` to ``until``, all of them columns; for WHERE."""
    return _Shifted(instant, since, until)


@compiles(_Moment, "mysql")
@compiles(_Moment, "mariadb")
@compiles(_Stamp, "mysql")
@compiles(_Stamp, "mariadb")
def _mysql_time(element: Any, compiler: Any, **kw: Any) -> str:
    return f"(UTC_TIMESTAMP(6) + INTERVAL {compiler.process(element.clauses, **kw)} MICROSECOND)"


@compiles(_Moment, "postgresql")
def _postgresql_moment(element: Any, compiler: Any, **kw: Any) -> str:
    return f"(statement_timestamp() + {compiler.process(element.clauses, **kw)} * interval '1 microsecond')"


@compiles(_Stamp, "postgresql")
def _postgresql_stamp(element: Any, compiler: Any, **kw: Any) -> str:
    return f"(clock_timestamp() + {compiler.process(element.clauses, **kw)} * interval '1 microsecond')"


@compiles(_Moment, "sqlite")
@compiles(_Stamp, "sqlite")
def _sqlite_time(element: Any, compiler: Any, **kw: Any) -> str:
    shift = f"printf('%+.6f seconds', {compiler.process(element.clauses, **kw)} / 1e6)"
    # SQLite knows milliseconds; three zeros keep the six digits that the other databases have.
    return f"(strftime('%Y-%m-%d %H:%M:%f', 'now', {shift}) || '000')"


@compiles(_EpochMs, "mysql")
@compiles(_EpochMs, "mariadb")
def _mysql_epoch(element: Any, compiler: Any, **kw: Any) -> str:
    us = compiler.process(element.clauses, **kw)
    # Not UNIX_TIMESTAMP(): it reads its argument in the session's time zone, which may be the caller's.
    return f"((TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + {us}) DIV 1000)"


@compiles(_EpochMs, "postgresql")
def _postgresql_epoch(element: Any, compiler: Any, **kw: Any) -> str:
    us = compiler.process(element.clauses, **kw)
    return f"CAST(floor(extract(epoch from clock_timestamp()) * 1000 + {us} / 1000.0) AS BIGINT)"


@compiles(_EpochMs, "sqlite")
def _sqlite_epoch(element: Any, compiler: Any, **kw: Any) -> str:
    us = compiler.process(element.clauses, **kw)
    seconds = "CAST(strftime('%s', 'now') AS INTEGER) * 1000"
    millis = "CAST(substr(strftime('%f', 'now'), 4, 3) AS INTEGER)"
    return f"({seconds} + {millis} + {us} / 1000)"


def _parts(element: Any, compiler: Any, **kw: Any) -> list[str]:
    return [compiler.process(part, **kw) for part in element.clauses]


@compiles(_Shifted, "mysql")
@compiles(_Shifted, "mariadb")
def _mysql_shifted(element: Any, compiler: Any, **kw: Any) -> str:
    instant, since, until = _parts(element, compiler, **kw)
    return f"({instant} + INTERVAL TIMESTAMPDIFF(MICROSECOND, {since}, {until}) MICROSECOND)"


@compiles(_Shifted, "postgresql")
def _postgresql_shifted(element: Any, compiler: Any, **kw: Any) -> str:
    instant, since, until = _parts(element, compiler, **kw)
    return f"({instant} + ({until} - {since}))"


@compiles(_Shifted, "sqlite")
def _sqlite_shifted(element: Any, compiler: Any, **kw: Any) -> str:
    instant, since, until = _parts(element, compiler, **kw)
    seconds = f"printf('%+.6f seconds', (julianday({until}) - julianday({since})) * 86400.0)"
    return f"(strftime('%Y-%m-%d %H:%M:%f', {instant}, {seconds}) || '000')"


_READ = sa.select(moment())


def wall_clock_ms() -> int:
    """This host's wall clock in ms since 1970: for labels in logs and tickets, never for a decision."""
    return time.time_ns() // 1_000_000
