"""Engines prepared for our rules, and the unit of work.

Rules of every connection (ground rule 4): READ COMMITTED (BEGIN IMMEDIATE on SQLite), strict mode, utf8mb4,
time zone +00:00, FOUND_ROWS, lock waits of at most 3 s so that no lease is born old.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import sqlalchemy as sa

from outbox.base.backoff import exponential
from outbox.base.clean import keep_clean
from outbox.base.drivers import connect_arguments, load_driver, named, share_tls
from outbox.base.errors import (
    CommitOutcomeUnknown,
    DatabaseContention,
    DatabaseError,
    DatabaseUrlError,
)
from outbox.base.failures import classify as classify
from outbox.base.failures import interrupted, short, unavailable
from outbox.base.failures import translate as translate
from outbox.base.forks import leave_at_fork
from outbox.base.idle import end_idle_transactions
from outbox.base.later import keep_writes
from outbox.base.outcome import watch_outcomes

T = TypeVar("T")
#: An Engine or an AsyncEngine.
E = TypeVar("E")

_log = logging.getLogger("aijobs.db")

#: Longest wait for a lock, in seconds; a lease taken after a longer wait would be born old (design 5).
LOCK_WAIT_S = 3
#: Connections are renewed before servers and firewalls close idle ones (DB-10), in seconds.
RECYCLE_S = 1_500
#: Tries to switch a new SQLite file to WAL; together about five seconds.
_WAL_ATTEMPTS = 15
#: Runs of one unit before its contention is reported; each is a whole fresh transaction (DB-12).
MAX_RUNS = 8
#: Lost connections in a row after which the database counts as away.
_LOST_RUNS = 3


# ------------------------------------------------------------------ engines


def create_engine_for(url: str, *, idle_transaction_ms: int = 0, **options: Any) -> sa.Engine:
    """An engine for ``url`` that keeps the rules of this module.

    A transaction that stands still for ``idle_transaction_ms``, as in a process that is frozen or cut off, is
    ended by the server, which frees its rows (PostgreSQL, MariaDB; MySQL has no such limit; 0 sets none).
    ``options`` go to SQLAlchemy's ``create_engine``. Raises :class:`DatabaseUrlError` for a URL that names
    no database we support, a missing driver, or SQLite in memory (each connection would see its own).
    """
    parsed = _parse(url)
    settings: dict[str, Any] = {
        "pool_recycle": RECYCLE_S,
        # Every unit ends its own transaction; a ROLLBACK on return would be one more round trip.
        "pool_reset_on_return": None,
        "pool_use_lifo": True,
        # A database error must not carry a payload into a log.
        "hide_parameters": True,
    }
    if parsed.get_backend_name() == "sqlite":
        settings.pop("pool_recycle")
    try:
        load_driver(parsed)
        if "connect_args" not in options and (arguments := connect_arguments(parsed)):
            settings["connect_args"] = arguments
        engine = sa.create_engine(parsed, **(settings | options))
    except ImportError as error:
        raise DatabaseUrlError(
            f"the driver for {parsed.drivername} is not installed ({error.name}); "
            "install aijobs with the extra of your database, for example aijobs[postgresql]"
        ) from None
    keep_clean(engine)
    share_tls(engine)
    leave_at_fork(engine)
    return end_idle_transactions(prepare_engine(engine), idle_transaction_ms)


def prepare_engine(engine: E) -> E:
    """Make every connection of ``engine`` keep our rules; returns the same engine.

    A host application calls this once on its own engine, sync or async, so that its transactions can carry
    jobs: on SQLite this gives BEGIN IMMEDIATE. Calling it twice changes nothing.
    """
    # An AsyncEngine wraps the engine that has the events.
    inner: Any = engine
    _prepare(getattr(inner, "sync_engine", inner))
    return engine


def _prepare(engine: sa.Engine) -> None:
    if is_prepared(engine):
        return
    # On the dialect, which an engine shares with its copies under other execution options.
    engine.dialect._aijobs_prepared = True  # type: ignore[attr-defined]
    sa.event.listen(engine, "connect", _PREPARE[engine.dialect.name])
    keep_writes(engine)
    # Around what keeps writes, also where a job was created on this engine before.
    watch_outcomes(engine.dialect)
    if engine.dialect.name == "sqlite":
        sa.event.listen(engine, "begin", _begin_sqlite)


def is_prepared(engine: sa.Engine) -> bool:
    """Whether :func:`prepare_engine` has seen this engine."""
    return bool(getattr(engine.dialect, "_aijobs_prepared", False))


def _parse(url: str) -> sa.URL:
    try:
        parsed = named(sa.make_url(url))
        backend = parsed.get_backend_name()
    except sa.exc.ArgumentError:
        raise DatabaseUrlError(
            "not a database URL; it looks like postgresql+psycopg://user:password@host/name, "
            "mysql+pymysql://user:password@host/name or sqlite:///file.db"
        ) from None
    if backend not in _PREPARE:
        raise DatabaseUrlError(f"{backend} is not supported; use postgresql, mysql, mariadb or sqlite")
    if backend == "sqlite" and parsed.database in (None, "", ":memory:"):
        raise DatabaseUrlError("SQLite in memory cannot be shared between connections; name a file")
    if backend in ("mysql", "mariadb"):
        driver = parsed.drivername if "+" in parsed.drivername else f"{backend}+pymysql"
        return parsed.set(drivername=driver).update_query_dict({"charset": "utf8mb4"})
    if parsed.drivername == "postgresql":
        return parsed.set(drivername="postgresql+psycopg")
    return parsed


def _execute(dbapi_connection: Any, *statements: str) -> None:
    cursor = dbapi_connection.cursor()
    try:
        for statement in statements:
            cursor.execute(statement)
    finally:
        cursor.close()


def _prepare_mysql(dbapi_connection: Any, _record: Any) -> None:
    _execute(
        dbapi_connection,
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
        "SET time_zone = '+00:00', innodb_lock_wait_timeout = "
        f"{LOCK_WAIT_S}, sql_mode = CONCAT_WS(',', @@sql_mode, 'STRICT_TRANS_TABLES', 'NO_ENGINE_SUBSTITUTION')",
    )


def _prepare_postgresql(dbapi_connection: Any, _record: Any) -> None:
    _execute(
        dbapi_connection,
        "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED",
        "SET TIME ZONE 'UTC'",
        f"SET lock_timeout = '{LOCK_WAIT_S}s'",
    )
    dbapi_connection.commit()


def _prepare_sqlite(dbapi_connection: Any, _record: Any) -> None:
    # The driver would begin its own, deferred transactions; ours begin IMMEDIATE (DB-5).
    dbapi_connection.isolation_level = None
    _execute(dbapi_connection, "PRAGMA busy_timeout = 5000")
    _use_wal(dbapi_connection)
    _execute(dbapi_connection, "PRAGMA synchronous = FULL", "PRAGMA foreign_keys = ON")


def _use_wal(dbapi_connection: Any) -> None:
    """Switch the file to WAL.

    SQLite's busy time-out does not hold for the switch, so of several processes that open a new file at
    once some would fail; they try again instead (DB-5).
    """
    # Only here: a process on a server need not load it.
    import sqlite3

    for attempt in range(1, _WAL_ATTEMPTS):
        with suppress(sqlite3.OperationalError):
            _execute(dbapi_connection, "PRAGMA journal_mode = WAL")
            return
        _pause(attempt)
    _execute(dbapi_connection, "PRAGMA journal_mode = WAL")


def _begin_sqlite(conn: sa.Connection) -> None:
    reading = conn.get_execution_options().get("aijobs_reading", False)
    conn.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")


_PREPARE: dict[str, Callable[[Any, Any], None]] = {
    "sqlite": _prepare_sqlite,
    "mysql": _prepare_mysql,
    "mariadb": _prepare_mysql,
    "postgresql": _prepare_postgresql,
}


# ------------------------------------------------------------------ units of work


class UnitOfWork:
    """Runs a function as one transaction, and the whole of it again where the database asks for that."""

    def __init__(self, engine: sa.Engine, *, max_runs: int = MAX_RUNS) -> None:
        self.engine = engine
        self._reader = engine.execution_options(aijobs_reading=True)
        self._max_runs = max_runs

    def run(
        self,
        unit: Callable[[sa.Connection], T],
        *,
        landed: Callable[[sa.Connection], T | None] | None = None,
        repeatable: bool = False,
    ) -> T:
        """Run ``unit(conn)`` in a transaction of its own, COMMIT included, and return what it returned.

        ``unit`` may run several times, each time from its beginning in a new transaction, so it must keep
        nothing outside the database. When the answer to COMMIT was lost, ``landed`` looks on a fresh
        connection, by an id chosen before, whether the unit is stored (None: it is not); ``repeatable``
        says that running it once more is as good as once. With neither that case raises. Raises
        :class:`DatabaseContention`, :class:`DatabaseUnavailable` or :class:`CommitOutcomeUnknown`.
        """
        look = landed or (_not_stored if repeatable else None)
        progress = _Progress()
        for run in range(1, self._max_runs + 1):
            if progress.unknown and look is not None:
                found = self._look(look)
                if found is not None:
                    return found
            try:
                return self._once(unit, progress)
            except sa.exc.DBAPIError as error:
                progress.unknown = self._judge(error, run, progress, look is not None)
                progress.doubtful |= progress.unknown
            _pause(run)
        raise AssertionError("unreachable: the last run returns or raises")

    def _once(self, unit: Callable[[sa.Connection], T], progress: _Progress) -> T:
        progress.committing = False
        with self.engine.connect() as conn, _Ended(conn):
            result = unit(conn)
            progress.committing = True
            conn.commit()
            return result

    def _look(self, look: Callable[[sa.Connection], T | None]) -> T | None:
        try:
            return self.read(look)
        except DatabaseError as error:
            raise CommitOutcomeUnknown() from error

    def read(self, look: Callable[[sa.Connection], T]) -> T:
        """Run ``look(conn)`` in a transaction that writes nothing (on SQLite it takes no write lock)."""
        for run in range(1, self._max_runs + 1):
            try:
                with self._reader.connect() as conn, _Ended(conn):
                    return look(conn)
            except sa.exc.DBAPIError as error:
                self._judge(error, run, _Progress(), True)
            _pause(run)
        raise AssertionError("unreachable: the last run returns or raises")

    def _judge(
        self, error: sa.exc.DBAPIError, run: int, progress: _Progress, can_look: bool
    ) -> bool:
        """Decide about a failed run: raise, or return whether the next run must look first."""
        kind, last = classify(error), run >= self._max_runs
        # Somebody's KILL, or a limit on time, leaves the connection; of a COMMIT it tells as little as a lost one.
        if kind == "lost" or (progress.committing and interrupted(error)):
            if progress.committing and (last or not can_look):
                raise CommitOutcomeUnknown() from error
            if last or (run >= _LOST_RUNS and not progress.committing):
                raise unavailable(error) from error
            return progress.committing
        if kind == "contention":
            if last:
                raise DatabaseContention(f"gave up after {run} runs: {short(error)}") from error
            return False
        if progress.doubtful and not last and isinstance(error, sa.exc.IntegrityError):
            # The run whose COMMIT was lost had not ended when it was looked for: its rows are in the way.
            return True
        raise error


@dataclass(slots=True)
class _Progress:
    """How far the runs of one unit have come."""

    #: The present run has sent COMMIT.
    committing: bool = False
    #: Whether the last run is stored is not known.
    unknown: bool = False
    #: That was so after some run.
    doubtful: bool = False


def _pause(run: int) -> None:
    time.sleep(exponential(run, base_ms=10, limit_ms=500, jitter=random.random) / 1000)


def _not_stored(_conn: sa.Connection) -> None:
    """Of a repeatable unit it need not be known whether it is stored."""


class _Ended:
    """Rolls the transaction back on the way out unless it was committed; errors of that are swallowed."""

    def __init__(self, conn: sa.Connection) -> None:
        self._conn = conn

    def __enter__(self) -> sa.Connection:
        return self._conn

    def __exit__(self, *_exc: object) -> None:
        if self._conn.in_transaction():
            try:
                self._conn.rollback()
            except sa.exc.DBAPIError:
                self._conn.invalidate()
