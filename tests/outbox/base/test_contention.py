"""Many at once: nothing is lost, nothing is done twice, and no caller sees the database's own errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest
import sqlalchemy as sa

from outbox.base.db import UnitOfWork
from outbox.base.errors import DatabaseContention
from outbox.base.ids import new_id
from tests.outbox.base.notes import NOTES, add_one, count, read, write
from tests.outbox.base.sqlite_crowd import create_and_run
from tests.support.migrated import engine_for
from tests.support.processes import Children
from tests.support.servers import MariaDbServer


def crowd(work: Callable[[int], Any], size: int, *, threads: int = 8) -> list[Any]:
    """Call `work` with 0 … size-1 on several threads; the answers in order, or the first error."""
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, range(size)))


def raise_twice(uow: UnitOfWork, first: Any, second: Any) -> None:
    """Two rows in one transaction, read before written; in either order, so that deadlocks come up."""

    def unit(conn: sa.Connection) -> None:
        for note in (first, second):
            before = conn.execute(sa.select(NOTES.c.n).where(NOTES.c.id == note)).scalar_one()
            assert before >= 0
            assert add_one(conn, note) == 1

    uow.run(unit)


def find_deadlocks_soon(engine: sa.Engine) -> None:
    """PostgreSQL looks for a deadlock after a second's wait, which is long for a test full of them."""

    def hurry(dbapi_connection: Any, _record: Any) -> None:
        dbapi_connection.execute("SET deadlock_timeout = '5ms'")
        dbapi_connection.commit()

    if engine.dialect.name == "postgresql":
        sa.event.listen(engine, "connect", hurry)
        engine.dispose()


def test_crossing_units_all_succeed_and_nothing_is_lost(engine: sa.Engine) -> None:
    find_deadlocks_soon(engine)
    uow = UnitOfWork(engine, max_runs=50)
    one, two = uow.run(lambda conn: (write(conn, n=0), write(conn, n=0)))

    crowd(lambda n: raise_twice(uow, *((one, two) if n % 2 else (two, one))), 60)

    assert uow.read(read) == [60, 60]


def test_a_conditional_update_claims_each_row_once(engine: sa.Engine) -> None:
    uow = UnitOfWork(engine, max_runs=50)
    uow.run(lambda conn: [write(conn, n=0) for _ in range(100)])
    free = sa.select(NOTES.c.id).where(NOTES.c.n == 0).order_by(NOTES.c.id).limit(5)

    def claim_all(worker: int) -> int:
        claimed = 0
        while candidates := uow.read(lambda conn: conn.execute(free).scalars().all()):
            for note in candidates:
                mine = sa.update(NOTES).where(NOTES.c.id == note, NOTES.c.n == 0)
                mine = mine.values(n=1, score=worker)
                claimed += uow.run(lambda conn, mine=mine: conn.execute(mine).rowcount)  # type: ignore[misc]
        return claimed

    claims = crowd(claim_all, 8)

    assert sum(claims) == 100
    by_worker = uow.read(lambda conn: read(conn, "score"))
    assert [by_worker.count(worker) for worker in range(8)] == claims


# -- MariaDB 11.6 and later (DB-2) --------------------------------------------------------------------


@pytest.fixture(scope="module")
def snapshot_isolation() -> Iterator[MariaDbServer]:
    """A MariaDB with the switch that is on by default since 11.6.2."""
    with MariaDbServer(options={"innodb-snapshot-isolation": "ON"}) as server:
        yield server


@pytest.fixture
def strict_url(snapshot_isolation: MariaDbServer) -> str:
    with snapshot_isolation.connect() as admin, admin.cursor() as cursor:
        cursor.execute("CREATE OR REPLACE DATABASE strict")
    url = snapshot_isolation.url("strict")
    with engine_for(url) as engine:
        NOTES.create(engine)
    return url


def read_then_write(conn: sa.Connection, note: Any, between: Callable[[], Any]) -> int:
    read(conn)
    between()
    return add_one(conn, note)


def test_our_engine_meets_no_changed_record(strict_url: str) -> None:
    with engine_for(strict_url) as engine, engine_for(strict_url) as rival:
        uow = UnitOfWork(engine, max_runs=1)
        note = uow.run(lambda conn: write(conn, n=0))
        interfere = lambda: UnitOfWork(rival).run(lambda conn: add_one(conn, note))  # noqa: E731

        assert uow.run(lambda conn: read_then_write(conn, note, interfere)) == 1

        assert uow.read(read) == [2]


def test_a_changed_record_runs_the_unit_again(strict_url: str) -> None:
    # a host's engine at MariaDB's own level, not prepared: there the error does come up
    host = sa.create_engine(strict_url)
    with engine_for(strict_url) as rival:
        note = UnitOfWork(rival).run(lambda conn: write(conn, n=0))
        interfere = lambda: UnitOfWork(rival).run(lambda conn: add_one(conn, note))  # noqa: E731
        runs: list[int] = []

        def unit(conn: sa.Connection) -> int:
            runs.append(1)
            return read_then_write(conn, note, interfere if len(runs) == 1 else lambda: None)

        with pytest.raises(DatabaseContention, match="1020"):
            UnitOfWork(host, max_runs=1).run(unit)
        runs.clear()
        assert UnitOfWork(host).run(unit) == 1
        assert len(runs) == 2
        assert UnitOfWork(rival).read(read) == [3]
    host.dispose()


def test_contention_under_snapshot_isolation_reaches_no_caller(strict_url: str) -> None:
    with engine_for(strict_url) as engine:
        uow = UnitOfWork(engine, max_runs=50)
        one, two = uow.run(lambda conn: (write(conn, n=0), write(conn, n=0)))

        crowd(lambda n: raise_twice(uow, *((one, two) if n % 2 else (two, one))), 60)

        assert uow.read(read) == [60, 60]


# -- idle polling (DB-3) ------------------------------------------------------------------------------

IDLE_POLL = sa.select(NOTES.c.id).where(NOTES.c.n == 0).order_by(NOTES.c.id).limit(10)


def polls(engine: sa.Engine, stack: ExitStack) -> None:
    """Four transactions that looked for work with a locking read, found none, and are still open."""
    for _ in range(4):
        conn = stack.enter_context(engine.connect())
        assert conn.execute(IDLE_POLL.with_for_update(skip_locked=True)).all() == []


def test_idle_pollers_block_no_creation(server_engine: sa.Engine) -> None:
    creating = UnitOfWork(server_engine, max_runs=1)
    with ExitStack() as stack:
        polls(server_engine, stack)

        crowd(lambda n: creating.run(lambda conn: write(conn, n=n + 1)), 100, threads=4)

    assert creating.read(count) == 100


def test_at_mariadbs_own_level_idle_pollers_would_block(mariadb_url: str) -> None:
    # why the level matters: the same, but on an engine that is not prepared
    host = sa.create_engine(mariadb_url)
    with host.begin() as conn:
        NOTES.create(conn)
    with engine_for(mariadb_url) as engine, ExitStack() as stack:
        polls(host, stack)

        with pytest.raises(DatabaseContention, match="1205"):
            UnitOfWork(engine, max_runs=1).run(lambda conn: write(conn, n=1))
    host.dispose()


def test_readers_of_sqlite_block_no_creation(sqlite_url: str) -> None:
    with engine_for(sqlite_url) as engine, ExitStack() as stack:
        NOTES.create(engine)
        reader = engine.execution_options(aijobs_reading=True)
        for _ in range(4):
            assert stack.enter_context(reader.connect()).execute(IDLE_POLL).all() == []
        creating = UnitOfWork(engine, max_runs=1)

        for n in range(1, 21):
            creating.run(lambda conn, n=n: write(conn, n=n))  # type: ignore[misc]

        assert creating.read(count) == 20


# -- one SQLite file, threads and processes (DB-5) ----------------------------------------------------


def test_a_reader_that_becomes_a_writer_would_fail_at_once(sqlite_url: str) -> None:
    # why BEGIN IMMEDIATE matters: the same on an engine that is not prepared
    with engine_for(sqlite_url) as engine:
        NOTES.create(engine)
        note = UnitOfWork(engine).run(lambda conn: write(conn, n=0))
        interfere = lambda: UnitOfWork(engine).run(lambda conn: add_one(conn, note))  # noqa: E731
        deferred = sa.create_engine(sqlite_url)
        sa.event.listen(deferred, "begin", lambda conn: conn.exec_driver_sql("BEGIN DEFERRED"))

        with pytest.raises(DatabaseContention):
            UnitOfWork(deferred, max_runs=1).run(
                lambda conn: read_then_write(conn, note, interfere)
            )
        deferred.dispose()


def test_threads_and_processes_share_a_file(sqlite_url: str, children: Children) -> None:
    crowds = [children.call(create_and_run, sqlite_url, 50) for _ in range(2)]
    for child in crowds:
        child.wait_for_output("ready")
    for child in crowds:
        child.send("go")

    with engine_for(sqlite_url) as engine:
        uow = UnitOfWork(engine)
        uow.run(lambda conn: NOTES.create(conn, checkfirst=True))
        crowd(lambda _: uow.run(lambda conn: write(conn, id=new_id(), n=1)), 100)
        for child in crowds:
            child.check(timeout=90)

        assert uow.read(read) == [1] * 200
