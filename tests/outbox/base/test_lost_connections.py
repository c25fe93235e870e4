"""A lost connection costs a run, never a unit: and a lost answer to COMMIT is found out, not guessed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from uuid import UUID

import pytest
import sqlalchemy as sa

from outbox.base.db import UnitOfWork
from outbox.base.errors import CommitOutcomeUnknown, DatabaseUnavailable
from outbox.base.ids import new_id
from tests.outbox.base.notes import NOTES, count, read, write
from tests.support.migrated import engine_for
from tests.support.proxy import TcpProxy


def fill_the_pool(engine: sa.Engine, size: int) -> None:
    open_at_once = [engine.connect() for _ in range(size)]
    for conn in open_at_once:
        conn.exec_driver_sql("SELECT 1")
    for conn in open_at_once:
        conn.close()


@pytest.fixture
def wire(
    server_engine: sa.Engine, tcp_proxy: Callable[[str, int], TcpProxy]
) -> Iterator[tuple[TcpProxy, sa.Engine]]:
    """A wire to the server that can be cut, and an engine at its near end."""
    url = server_engine.url
    assert url.host is not None
    assert url.port is not None
    proxy = tcp_proxy(url.host, url.port)
    with engine_for(proxy.url(url.render_as_string(hide_password=False))) as engine:
        # making a connection ready sends a COMMIT too; the faults are for the unit's
        fill_the_pool(engine, 1)
        yield proxy, engine


@dataclass
class OneNote:
    """A unit that stores one note under an id chosen before, and the look-up of it."""

    id: UUID = field(default_factory=new_id)
    runs: int = 0
    looks: int = 0

    def store(self, conn: sa.Connection) -> str:
        self.runs += 1
        write(conn, id=self.id, n=self.runs)
        return f"stored by run {self.runs}"

    def landed(self, conn: sa.Connection) -> str | None:
        self.looks += 1
        found = conn.execute(sa.select(NOTES.c.n).where(NOTES.c.id == self.id)).scalar()
        return None if found is None else f"found from run {found}"


# -- COMMIT whose answer is lost (CI-9, DB-11) --------------------------------------------------------


def test_a_commit_without_an_answer_is_found_by_its_id(
    wire: tuple[TcpProxy, sa.Engine], server_engine: sa.Engine
) -> None:
    proxy, engine = wire
    note = OneNote()
    fault = proxy.drop_answers_once(b"COMMIT")

    answer = UnitOfWork(engine).run(note.store, landed=note.landed)

    assert fault.happened.is_set()
    assert answer == "found from run 1"
    assert (note.runs, note.looks) == (1, 1)
    assert UnitOfWork(server_engine).read(count) == 1


def test_a_commit_that_never_arrived_is_repeated(
    wire: tuple[TcpProxy, sa.Engine], server_engine: sa.Engine
) -> None:
    proxy, engine = wire
    note = OneNote()
    fault = proxy.drop_requests_once(b"COMMIT")

    answer = UnitOfWork(engine).run(note.store, landed=note.landed)

    assert fault.happened.is_set()
    assert answer == "stored by run 2"
    assert (note.runs, note.looks) == (2, 1)
    assert UnitOfWork(server_engine).read(read) == [2]


@pytest.mark.parametrize(("lose", "stored"), [("drop_answers_once", 1), ("drop_requests_once", 0)])
def test_without_a_look_up_the_outcome_is_called_unknown(
    wire: tuple[TcpProxy, sa.Engine], server_engine: sa.Engine, lose: str, stored: int
) -> None:
    proxy, engine = wire
    note = OneNote()
    getattr(proxy, lose)(b"COMMIT")

    with pytest.raises(CommitOutcomeUnknown) as unknown:
        UnitOfWork(engine).run(note.store)

    assert (unknown.value.code, note.runs) == ("COMMIT_OUTCOME_UNKNOWN", 1)
    assert UnitOfWork(server_engine).read(count) == stored


def test_a_repeatable_unit_is_simply_run_again(
    wire: tuple[TcpProxy, sa.Engine], server_engine: sa.Engine
) -> None:
    proxy, engine = wire
    note = UnitOfWork(server_engine).run(lambda conn: write(conn, n=0))
    runs = []

    def unit(conn: sa.Connection) -> int:
        runs.append(1)
        return conn.execute(sa.update(NOTES).where(NOTES.c.id == note).values(n=5)).rowcount

    proxy.drop_answers_once(b"COMMIT")

    assert UnitOfWork(engine).run(unit, repeatable=True) == 1
    assert len(runs) == 2
    assert UnitOfWork(server_engine).read(read) == [5]


def test_when_nobody_can_look_the_outcome_stays_unknown(
    wire: tuple[TcpProxy, sa.Engine], server_engine: sa.Engine
) -> None:
    proxy, engine = wire
    note = OneNote()
    proxy.drop_answers_once(b"COMMIT")
    sa.event.listen(engine, "handle_error", lambda _context: proxy.cut())

    with pytest.raises(CommitOutcomeUnknown):
        UnitOfWork(engine).run(note.store, landed=note.landed)

    assert (note.runs, UnitOfWork(server_engine).read(count)) == (1, 1)


def test_a_commit_that_was_still_on_its_way_is_found_when_its_row_is_in_the_way(
    wire: tuple[TcpProxy, sa.Engine], server_engine: sa.Engine
) -> None:
    proxy, engine = wire
    note = OneNote()

    def too_early(conn: sa.Connection) -> str | None:
        # the first look comes before the server has carried out the COMMIT it was sent
        found = note.landed(conn)
        return None if note.looks == 1 else found

    proxy.drop_answers_once(b"COMMIT")

    answer = UnitOfWork(engine).run(note.store, landed=too_early)

    assert answer == "found from run 1"
    assert (note.runs, note.looks) == (2, 2)
    assert UnitOfWork(server_engine).read(read) == [1]


def test_two_lost_answers_in_a_row_store_one_unit(
    wire: tuple[TcpProxy, sa.Engine], server_engine: sa.Engine
) -> None:
    proxy, engine = wire
    note = OneNote()
    proxy.drop_requests_once(lambda request: b"COMMIT" in request and note.runs == 1)
    proxy.drop_answers_once(lambda request: b"COMMIT" in request and note.runs == 2)

    answer = UnitOfWork(engine).run(note.store, landed=note.landed)

    assert answer == "found from run 2"
    assert UnitOfWork(server_engine).read(read) == [2]


# -- connections lost before COMMIT (DB-10) ----------------------------------------------------------


@pytest.mark.parametrize("lose", ["drop_answers_once", "drop_requests_once"])
def test_a_connection_lost_in_the_middle_repeats_the_unit(
    wire: tuple[TcpProxy, sa.Engine], server_engine: sa.Engine, lose: str
) -> None:
    proxy, engine = wire
    note = OneNote()

    def unit(conn: sa.Connection) -> str:
        write(conn, n=100)
        return note.store(conn)

    fault = getattr(proxy, lose)(lambda request: b"INSERT" in request and note.runs == 1)

    answer = UnitOfWork(engine).run(unit, landed=note.landed)

    assert fault.happened.is_set()
    assert (answer, note.looks) == ("stored by run 2", 0)
    assert sorted(UnitOfWork(server_engine).read(read)) == [2, 100]


def kill_idle(engine: sa.Engine) -> int:
    """End all other sessions of the database at the server, as a night's firewall does; returns how many."""
    with engine.connect() as conn:
        if conn.dialect.name == "postgresql":
            kill = (
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            return len(conn.exec_driver_sql(kill).all())
        idle = (
            "SELECT id FROM information_schema.processlist "
            "WHERE db = DATABASE() AND id <> CONNECTION_ID()"
        )
        numbers = conn.exec_driver_sql(idle).scalars().all()
        for number in numbers:
            conn.exec_driver_sql(f"KILL {number}")
        return len(numbers)


@pytest.fixture
def quiet_night(server_engine: sa.Engine) -> Iterator[tuple[sa.Engine, Callable[[], int]]]:
    """An engine with five idle connections, and the act that kills them all."""
    with engine_for(server_engine.url.render_as_string(hide_password=False)) as engine:
        fill_the_pool(engine, 5)
        yield engine, lambda: kill_idle(server_engine)


def test_the_first_unit_after_a_quiet_night_succeeds(
    quiet_night: tuple[sa.Engine, Callable[[], int]],
) -> None:
    engine, kill = quiet_night
    uow, note = UnitOfWork(engine), OneNote()

    assert kill() >= 5
    uow.run(note.store)
    kill()
    assert uow.read(count) == 1
    kill()

    assert uow.run(lambda conn: write(conn, n=9)) is not None
    assert uow.read(count) == 2


def test_many_first_units_after_a_quiet_night_succeed(
    quiet_night: tuple[sa.Engine, Callable[[], int]],
) -> None:
    engine, kill = quiet_night
    uow = UnitOfWork(engine)

    assert kill() >= 5
    with ThreadPoolExecutor(5) as pool:
        list(pool.map(lambda n: uow.run(lambda conn: write(conn, n=n)), range(20)))

    assert sorted(uow.read(read)) == list(range(20))


def test_a_database_that_is_away_is_reported(wire: tuple[TcpProxy, sa.Engine]) -> None:
    proxy, engine = wire
    uow, note = UnitOfWork(engine), OneNote()
    uow.read(count)
    proxy.cut()

    with pytest.raises(DatabaseUnavailable) as away:
        uow.run(note.store)
    with pytest.raises(DatabaseUnavailable):
        uow.read(count)

    assert (away.value.code, away.value.retryable) == ("DATABASE_UNAVAILABLE", True)
    proxy.mend()
    assert uow.run(note.store, landed=note.landed).startswith("stored")
