"""A unit of work is stored whole or not at all, and begins again from its start where the database asks for that."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psycopg.errors
import pymysql.err
import pytest
import sqlalchemy as sa

from outbox.base.db import UnitOfWork, classify, translate
from outbox.base.errors import (
    DatabaseContention,
    DatabaseError,
    DatabaseUnavailable,
    NaiveDatetimeError,
)
from outbox.base.ids import new_id
from tests.outbox.base.notes import NOTES, add_one, count, read, write
from tests.support.migrated import engine_for
from tests.support.wait import eventually

LOCK = sa.select(NOTES.c.n).with_for_update()


def test_a_unit_is_committed_and_its_answer_returned(uow: UnitOfWork) -> None:
    note = uow.run(lambda conn: write(conn, n=1))

    assert uow.read(lambda conn: read(conn, "id")) == [note]


def test_a_unit_that_raises_leaves_nothing_and_runs_once(uow: UnitOfWork) -> None:
    runs = []

    def unit(conn: sa.Connection) -> None:
        runs.append(write(conn, n=1))
        raise NaiveDatetimeError

    with pytest.raises(NaiveDatetimeError):
        uow.run(unit)

    assert len(runs) == 1
    assert uow.read(count) == 0


def test_an_error_that_running_again_cannot_mend_is_raised_at_once(uow: UnitOfWork) -> None:
    note, runs = uow.run(lambda conn: write(conn, n=1)), []

    def unit(conn: sa.Connection) -> None:
        runs.append(write(conn, n=2))
        write(conn, id=note)

    with pytest.raises(sa.exc.IntegrityError):
        uow.run(unit)

    assert len(runs) == 1
    assert uow.read(read) == [1]


def test_a_connection_goes_back_without_a_transaction(uow: UnitOfWork) -> None:
    uow.read(lambda conn: read(conn))
    uow.run(lambda conn: write(conn, n=1))
    with pytest.raises(ZeroDivisionError):
        uow.run(lambda conn: 1 // 0 if write(conn, n=2) else None)

    assert uow.engine.pool.checkedout() == 0  # type: ignore[attr-defined]
    with uow.engine.connect() as conn:
        assert count(conn) == 1


# -- lock waits (CI-8) --------------------------------------------------------------------------------


@pytest.fixture
def impatient(engine: sa.Engine) -> sa.Engine:
    """The engine with the shortest lock wait that each database can do."""
    shortest = {
        "sqlite": "PRAGMA busy_timeout = 10",
        "mariadb": "SET innodb_lock_wait_timeout = 1",
        "postgresql": "SET lock_timeout = '50ms'",
    }

    def shorten(dbapi_connection: Any, _record: Any) -> None:
        cursor = dbapi_connection.cursor()
        cursor.execute(shortest[engine.dialect.name])
        cursor.close()
        dbapi_connection.commit()

    sa.event.listen(engine, "connect", shorten)
    engine.dispose()
    return engine


@contextmanager
def rival(engine: sa.Engine) -> Iterator[Callable[[], None]]:
    """Another session that holds the locks of every note; the function lets go of them."""
    with engine_for(engine.url.render_as_string(hide_password=False)) as other:
        conn = other.connect()
        conn.execute(LOCK).all()
        yield conn.close
        conn.close()


def on_error(engine: sa.Engine, act: Callable[[], None]) -> None:
    """Run `act` when the first error comes up."""
    done = threading.Event()

    def handle(_context: Any) -> None:
        if not done.is_set():
            done.set()
            act()

    sa.event.listen(engine, "handle_error", handle)


def test_a_lock_wait_undoes_the_whole_unit_and_runs_it_again(impatient: sa.Engine) -> None:
    uow = UnitOfWork(impatient)
    held = uow.run(lambda conn: write(conn, n=1))
    seen_by_others: list[int] = []

    def unit(conn: sa.Connection) -> int:
        with engine_for(impatient.url.render_as_string(hide_password=False)) as other:
            seen_by_others.append(UnitOfWork(other).read(count))
        write(conn, n=7)
        return add_one(conn, held)

    with rival(impatient) as let_go:
        on_error(impatient, let_go)
        assert uow.run(unit) == 1

    assert seen_by_others == [1, 1]
    assert uow.read(read) == [2, 7]


def test_contention_without_end_is_reported_and_nothing_is_stored(impatient: sa.Engine) -> None:
    uow = UnitOfWork(impatient, max_runs=2)
    held = uow.run(lambda conn: write(conn, n=1))

    def unit(conn: sa.Connection) -> None:
        write(conn, n=7)
        add_one(conn, held)

    with rival(impatient), pytest.raises(DatabaseContention) as gave_up:
        uow.run(unit)

    assert (gave_up.value.code, gave_up.value.retryable) == ("DATABASE_CONTENTION", True)
    assert uow.read(read) == [1]


# -- deadlocks (DB-12) --------------------------------------------------------------------------------


def test_a_deadlock_at_the_third_statement_repeats_all_of_them(server_engine: sa.Engine) -> None:
    uow = UnitOfWork(server_engine)
    first, second = uow.run(lambda conn: (write(conn, n=0), write(conn, n=0)))
    first_is_locked, second_is_locked = threading.Event(), threading.Event()
    fresh: list[int] = []

    def other_side() -> None:
        with server_engine.connect() as conn:
            lose_no_deadlock(conn)
            add_one(conn, second)
            second_is_locked.set()
            first_is_locked.wait(20)
            add_one(conn, first)
            conn.commit()

    def unit(conn: sa.Connection) -> None:
        if fresh:
            other.result(20)
        fresh.append(conn.execute(sa.select(NOTES.c.n).where(NOTES.c.id == second)).scalar_one())
        write(conn, n=100 + len(fresh))
        add_one(conn, first)
        first_is_locked.set()
        if len(fresh) == 1:
            eventually(lambda: waiting(server_engine), message="the other side waits for us")
        add_one(conn, second)

    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(other_side)
        assert second_is_locked.wait(20), "the other side has not begun"
        uow.run(unit)

    # the second run read what the winner of the deadlock had written
    assert fresh == [0, 1]
    assert uow.read(read) == [2, 2, 102]


def lose_no_deadlock(conn: sa.Connection) -> None:
    """Make this transaction the one that the database lets live."""
    if conn.dialect.name == "postgresql":
        # who looks first and finds the deadlock is its victim
        conn.exec_driver_sql("SET LOCAL deadlock_timeout = '60s'")
        conn.exec_driver_sql("SET LOCAL lock_timeout = 0")
        return
    # InnoDB lets the transaction with the most changes live
    for _ in range(20):
        conn.execute(sa.insert(NOTES), {"id": new_id(), "n": -1})
        conn.execute(sa.delete(NOTES).where(NOTES.c.n == -1))


def waiting(engine: sa.Engine) -> bool:
    query = {
        "mariadb": "SELECT COUNT(*) FROM information_schema.innodb_trx t JOIN "
        "information_schema.processlist p ON p.id = t.trx_mysql_thread_id "
        "WHERE p.db = DATABASE() AND t.trx_state = 'LOCK WAIT'",
        "postgresql": "SELECT COUNT(*) FROM pg_stat_activity "
        "WHERE datname = current_database() AND wait_event_type = 'Lock'",
    }
    with engine.connect() as conn:
        return bool(conn.exec_driver_sql(query[engine.dialect.name]).scalar_one())


# -- COMMIT that fails for certain (DB-11) -----------------------------------------------------------


class FailingCommit:
    """Lets the database refuse the next COMMIT of an engine, as Galera does: rolled back, error 1213."""

    def __init__(self, engine: sa.Engine) -> None:
        self._dialect = engine.dialect
        self._real = engine.dialect.do_commit
        self.commits = 0
        engine.dialect.do_commit = self  # type: ignore[method-assign]

    def __call__(self, dbapi_connection: Any) -> None:
        self.commits += 1
        if self.commits > 1:
            return self._real(dbapi_connection)
        dbapi_connection.rollback()
        raise {
            "sqlite": lambda raw: raw.OperationalError("database is locked"),
            "mariadb": lambda raw: raw.OperationalError(1213, "Deadlock found at commit"),
            "postgresql": lambda raw: raw.errors.SerializationFailure("at commit"),
        }[self._dialect.name](self._dialect.dbapi)


def test_a_refused_commit_repeats_the_unit_and_stores_it_once(uow: UnitOfWork) -> None:
    failing = FailingCommit(uow.engine)
    runs: list[Any] = []

    def unit(conn: sa.Connection) -> int:
        runs.append(write(conn, n=len(runs)))
        return len(runs)

    # it is certain that nothing was stored, so nobody looks and nobody needs to be able to
    assert uow.run(unit, landed=lambda _conn: pytest.fail("looked")) == 2

    assert failing.commits == 2
    assert uow.read(read) == [1]


def test_a_serialization_failure_at_commit_repeats_the_unit(postgresql_url: str) -> None:
    # two transactions that each read what the other writes: PostgreSQL lets one COMMIT fail
    with engine_for(postgresql_url) as engine:
        NOTES.create(engine)
        uow = UnitOfWork(engine)
        sums: list[int] = []

        def unit(conn: sa.Connection, rival: bool = False) -> None:
            conn.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE")
            total = conn.execute(
                sa.select(sa.func.coalesce(sa.func.sum(NOTES.c.n), 0))
            ).scalar_one()
            write(conn, n=total + 1)
            if not rival:
                sums.append(total)
            if len(sums) == 1 and not rival:
                with engine.begin() as other:
                    unit(other, rival=True)

        uow.run(unit)

        assert sums == [0, 1]
        assert sorted(uow.read(read)) == [1, 2]


# -- what errors mean --------------------------------------------------------------------------------


def dbapi_error(
    orig: BaseException, kind: type[sa.exc.DBAPIError] = sa.exc.OperationalError
) -> Any:
    return kind("SELECT 'secret'", {"x": "secret"}, orig)


def MARIADB(code: int, text: str) -> BaseException:
    return pymysql.err.OperationalError(code, text, sqlstate="HY000")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (dbapi_error(MARIADB(1020, "Record has changed since last read")), "contention"),
        (dbapi_error(MARIADB(1205, "Lock wait timeout exceeded")), "contention"),
        (dbapi_error(MARIADB(1213, "Deadlock found")), "contention"),
        (dbapi_error(MARIADB(2006, "Server has gone away")), "lost"),
        (dbapi_error(MARIADB(2013, "Lost connection during query")), "lost"),
        (dbapi_error(MARIADB(2003, "Can't connect")), "lost"),
        (dbapi_error(MARIADB(1040, "Too many connections")), "lost"),
        (dbapi_error(MARIADB(1927, "Connection was killed")), "lost"),
        (dbapi_error(pymysql.err.InterfaceError(0, ""), sa.exc.InterfaceError), "lost"),
        (dbapi_error(MARIADB(1054, "Unknown column")), "other"),
        (
            dbapi_error(pymysql.err.IntegrityError(1062, "Duplicate"), sa.exc.IntegrityError),
            "other",
        ),
        (dbapi_error(psycopg.errors.SerializationFailure()), "contention"),
        (dbapi_error(psycopg.errors.DeadlockDetected()), "contention"),
        (dbapi_error(psycopg.errors.LockNotAvailable()), "contention"),
        (dbapi_error(psycopg.errors.AdminShutdown()), "lost"),
        (dbapi_error(psycopg.errors.ConnectionFailure()), "lost"),
        (dbapi_error(psycopg.errors.TooManyConnections()), "lost"),
        (dbapi_error(psycopg.OperationalError("connection refused")), "lost"),
        (dbapi_error(psycopg.errors.QueryCanceled()), "other"),
        # somebody went on in a transaction after an error: running it again would hide that
        (dbapi_error(psycopg.errors.InFailedSqlTransaction()), "other"),
        (dbapi_error(psycopg.errors.UniqueViolation(), sa.exc.IntegrityError), "other"),
        (ValueError("database is locked"), "other"),
    ],
)
def test_an_error_means_one_thing(error: BaseException, kind: str) -> None:
    assert classify(error) == kind


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (dbapi_error(MARIADB(1213, "x")), DatabaseContention),
        (dbapi_error(MARIADB(2013, "x")), DatabaseUnavailable),
        (dbapi_error(MARIADB(1054, "x")), DatabaseError),
    ],
)
def test_errors_are_translated_without_statement_or_values(
    error: sa.exc.DBAPIError, kind: type[DatabaseError]
) -> None:
    translated = translate(error)

    assert type(translated) is kind
    assert str(translated).endswith(f"OperationalError {error.orig.args[0]}")  # type: ignore[union-attr]
