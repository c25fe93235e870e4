"""Writes that wait for the COMMIT: one trip, their order kept, and nothing of them without it."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from pymysql.err import OperationalError
from sqlalchemy.orm import Session

from outbox.base import later
from outbox.base.bulk import RowInsert
from outbox.base.db import UnitOfWork, prepare_engine
from outbox.base.errors import CommitOutcomeUnknown
from outbox.base.ids import new_id
from outbox.base.keyed import Keyed, one_of
from tests.outbox.base.conftest import engine_with_notes
from tests.outbox.base.notes import NOTES, write
from tests.support.databases import Databases

_INSERT = RowInsert(NOTES, ["id", "title", "n"])
_ANSWERING = RowInsert(NOTES, ["id", "title", "n"], returning=["id", "n", "title"])
_COUNT_UP = Keyed(sa.update(NOTES).where(one_of(NOTES.c.id)).values(n=NOTES.c.n + 1))
_LOOK = Keyed(sa.select(NOTES.c.id, NOTES.c.n).where(one_of(NOTES.c.id)).order_by(NOTES.c.n))


@pytest.fixture
def on_mariadb(
    request: pytest.FixtureRequest, databases: Callable[[str], Databases]
) -> Iterator[UnitOfWork]:
    """The one database that keeps writes."""
    wanted = request.config.getoption("--database")
    if wanted and "mariadb" not in wanted:
        pytest.skip("not asked for: mariadb")
    for engine in engine_with_notes(databases("mariadb")):
        yield UnitOfWork(engine)


def note(n: int = 0, title: str = "", **more: Any) -> dict[str, Any]:
    return {"id": new_id(), "title": title, "n": n} | more


def numbers(uow: UnitOfWork) -> list[int]:
    return uow.read(
        lambda conn: list(conn.execute(sa.select(NOTES.c.n).order_by(NOTES.c.n)).scalars())
    )


def test_written_rows_are_there_after_the_commit(uow: UnitOfWork) -> None:
    def unit(conn: sa.Connection) -> None:
        for n in range(3):
            _INSERT.write(conn, [note(n)])

    uow.run(unit)
    assert numbers(uow) == [0, 1, 2]


@pytest.mark.parametrize(
    "title", ["it's; END -- %s", "%(x)s %%", "\\", '"', "`", "\U0001f600", "/* */ ? :a"]
)
def test_values_come_back_as_they_were(uow: UnitOfWork, title: str) -> None:
    uow.run(lambda conn: _INSERT.write(conn, [note(title=title)]))
    assert uow.read(lambda conn: conn.execute(sa.select(NOTES.c.title)).scalar_one()) == title


LOOKS: dict[str, Callable[[sa.Connection], Any]] = {
    "core": lambda conn: conn.execute(sa.select(NOTES.c.n)).scalars().all(),
    "text": lambda conn: conn.exec_driver_sql("SELECT n FROM note").scalars().all(),
    "session": lambda conn: Session(conn).scalars(sa.select(NOTES.c.n)).all(),
    "many": lambda conn: conn.execute(sa.insert(NOTES), [note(9), note(9)]).rowcount and [7],
}


@pytest.mark.parametrize("look", LOOKS)
def test_every_other_statement_comes_after_them(uow: UnitOfWork, look: str) -> None:
    def unit(conn: sa.Connection) -> None:
        _INSERT.write(conn, [note(7)])
        assert list(LOOKS[look](conn)) == [7]
        assert not getattr(conn.connection.dbapi_connection, later._KEPT, [])

    uow.run(unit)
    assert 7 in numbers(uow)


def test_a_rollback_takes_them_back(engine: sa.Engine, uow: UnitOfWork) -> None:
    with engine.connect() as conn:
        _INSERT.write(conn, [note(1)])
        conn.rollback()
        conn.execute(sa.insert(NOTES), note(2))
        conn.commit()
    assert numbers(uow) == [2]


def test_a_connection_that_is_given_back_keeps_nothing(engine: sa.Engine, uow: UnitOfWork) -> None:
    with engine.connect() as conn:
        _INSERT.write(conn, [note(1)])
    uow.run(lambda conn: _INSERT.write(conn, [note(2)]))
    assert numbers(uow) == [2]


def test_nothing_is_kept_by_a_connection_that_nobody_gave_back(on_mariadb: UnitOfWork) -> None:
    """A host's pool collects it by itself, and sends a ROLLBACK of its own."""
    host = prepare_engine(sa.create_engine(on_mariadb.engine.url, pool_size=1, max_overflow=0))
    forgotten = host.connect()
    _INSERT.write(forgotten, [note(1)])
    del forgotten
    gc.collect()

    with host.begin() as conn:
        conn.execute(sa.insert(NOTES), note(2))
    host.dispose()
    assert numbers(on_mariadb) == [2]


def test_a_rollback_through_another_copy_of_the_engine_takes_them_back(on_mariadb: UnitOfWork) -> None:
    """A host may have prepared an engine under other execution options: the dialect is the same."""
    host = sa.create_engine(on_mariadb.engine.url, pool_size=1, max_overflow=0)
    prepare_engine(host.execution_options(logging_token="copy"))
    with host.connect() as conn:
        _INSERT.write(conn, [note(1)])
        conn.rollback()
        conn.execute(sa.insert(NOTES), note(2))
        conn.commit()
    host.dispose()
    assert numbers(on_mariadb) == [2]


def test_a_host_that_executes_statements_itself_does_so_after_them(on_mariadb: UnitOfWork) -> None:
    """As SQLAlchemy's own recipe does that runs statements again after a lost connection."""

    def execute(cursor: Any, statement: str, parameters: Any, _context: Any) -> bool:
        cursor.execute(statement, parameters)
        return True

    host = sa.create_engine(on_mariadb.engine.url)
    sa.event.listen(host, "do_execute", execute)
    prepare_engine(host)
    with host.begin() as conn:
        answer = _ANSWERING.fetch_later(conn, [note(1)])
        conn.execute(sa.update(NOTES).values(n=NOTES.c.n + 1))
        later.send_kept(conn)
        assert [n for _id, n, _title in answer()] == [1]
    host.dispose()
    assert numbers(on_mariadb) == [2]


def test_a_refused_write_stores_nothing_of_its_unit(uow: UnitOfWork) -> None:
    """CI-8. Not what stood before it either: the COMMIT is not reached."""
    twin = note(1)

    def unit(conn: sa.Connection) -> None:
        _INSERT.write(conn, [note(0)])
        _INSERT.write(conn, [twin])
        _INSERT.write(conn, [twin])

    with pytest.raises(sa.exc.IntegrityError):
        uow.run(unit)
    assert numbers(uow) == []


def test_a_connection_that_could_not_be_rolled_back_serves_nobody(on_mariadb: UnitOfWork) -> None:
    """DB-10. The driver does not know what a refused COMMIT has left open: an error tells no state."""
    twin = note(1)

    def refuse() -> None:
        raise OperationalError(1317, "Query execution was interrupted")

    def unit(conn: sa.Connection) -> None:
        connection: Any = conn.connection.dbapi_connection
        connection.rollback = refuse
        _INSERT.write(conn, [twin])
        _INSERT.write(conn, [twin])

    with pytest.raises(sa.exc.IntegrityError):
        on_mariadb.run(unit)
    on_mariadb.run(lambda conn: _INSERT.write(conn, [note(2)]))
    assert numbers(on_mariadb) == [2]


def test_a_caller_hears_of_a_refused_write_before_the_commit(engine: sa.Engine) -> None:
    twin = note(1)

    def write(conn: sa.Connection) -> None:
        _INSERT.write(conn, [twin, twin])
        later.send_kept(conn)

    with engine.connect() as conn, pytest.raises(sa.exc.IntegrityError):
        write(conn)


def test_a_lock_that_is_not_given_runs_the_whole_unit_again(on_mariadb: UnitOfWork) -> None:
    """CI-8, DB-12. The write that had to wait is at its end; its beginning is run again all the same."""
    held = note(1)
    runs: list[int] = []
    with on_mariadb.engine.connect() as rival:
        rival.execute(sa.insert(NOTES), held)

        def unit(conn: sa.Connection) -> None:
            conn.exec_driver_sql("SET innodb_lock_wait_timeout = 1")
            _INSERT.write(conn, [note(10 + len(runs))])
            _INSERT.write(conn, [held])
            runs.append(len(runs))
            if len(runs) == 2:
                rival.rollback()

        on_mariadb.run(unit)
    assert runs == [0, 1]
    assert numbers(on_mariadb) == [1, 11]


def test_they_travel_with_the_commit(on_mariadb: UnitOfWork) -> None:
    """Design 14. On MariaDB any number of them, COMMIT included, is one question to the server."""

    def questions(conn: sa.Connection) -> int:
        return int(conn.exec_driver_sql("SHOW SESSION STATUS LIKE 'Questions'").one()[1])

    with on_mariadb.engine.connect() as conn:
        before = questions(conn)
        for n in range(3):
            _INSERT.write(conn, [note(n)])
        conn.commit()
        assert questions(conn) - before == 2
        conn.rollback()
    assert numbers(on_mariadb) == [0, 1, 2]


def test_no_packet_grows_beyond_what_servers_take(
    uow: UnitOfWork, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(later, "MAX_KEPT", 400)

    def unit(conn: sa.Connection) -> None:
        for n in range(40):
            _INSERT.write(conn, [note(n, title="x" * 20)])
            kept = getattr(conn.connection.dbapi_connection, later._KEPT, [])
            assert sum(len(each.text) for each in kept) <= 400

    uow.run(unit)
    assert numbers(uow) == list(range(40))


@pytest.mark.parametrize("known", [1, 3])
def test_rows_that_were_counted_on_are_counted(uow: UnitOfWork, known: int) -> None:
    ids = [uow.run(lambda conn, n=n: write(conn, n=n)) for n in range(known)]  # type: ignore[misc]

    uow.run(lambda conn: _COUNT_UP.write(conn, ids, expect=known))
    # Whether or not the values are new ones.
    uow.run(lambda conn: _COUNT_UP.write(conn, ids, expect=known))

    assert numbers(uow) == [n + 2 for n in range(known)]


@pytest.mark.parametrize("follows", ["the commit", "another write", "a look"])
def test_a_row_too_few_undoes_the_whole_unit(uow: UnitOfWork, follows: str) -> None:
    """DB-4. What was decided about rows is stored as it was decided, or not at all."""
    known = uow.run(lambda conn: write(conn, n=7))

    def unit(conn: sa.Connection) -> None:
        _INSERT.write(conn, [note(1)])
        _COUNT_UP.write(conn, [known, new_id()], expect=2)
        if follows == "another write":
            _INSERT.write(conn, [note(2)])
        if follows == "a look":
            conn.execute(sa.select(NOTES.c.n)).all()

    for _ in range(2):
        with pytest.raises(later.Shortfall):
            uow.run(unit)
    assert numbers(uow) == [7]


@pytest.mark.parametrize("counted_on", [0, 1, 2, 3])
def test_rows_that_a_look_counts_on_are_counted_and_come_back(uow: UnitOfWork, counted_on: int) -> None:
    ids = [uow.run(lambda conn, n=n: write(conn, n=n)) for n in range(2)]  # type: ignore[misc]

    def unit(conn: sa.Connection) -> Callable[[], list[list[Any]]]:
        _INSERT.write(conn, [note(5)])
        found = _LOOK.fetch_later(conn, ids, expect=counted_on)
        _INSERT.write(conn, [note(6)])
        return found

    if counted_on == 2:
        assert uow.run(unit)() == [[ids[0], 0], [ids[1], 1]]
        assert numbers(uow) == [0, 1, 5, 6]
    else:
        with pytest.raises(later.Shortfall):
            uow.run(unit)
        assert numbers(uow) == [0, 1]


def test_rows_come_back_with_the_commit(uow: UnitOfWork) -> None:
    """Of several writes each has its own, whatever stands between them."""
    first, second = [note(n, "ä'; --") for n in range(3)], [note(9)]

    def unit(conn: sa.Connection) -> list[Callable[[], list[tuple[Any, ...]]]]:
        one = _ANSWERING.fetch_later(conn, first)
        _INSERT.write(conn, [note(5)])
        return [one, _ANSWERING.fetch_later(conn, second)]

    answers = [answer() for answer in uow.run(unit)]

    assert answers == [[(row["id"], row["n"], row["title"]) for row in rows] for rows in (first, second)]
    assert numbers(uow) == [0, 1, 2, 5, 9]


def test_a_refusal_after_a_write_that_answers_is_heard(uow: UnitOfWork) -> None:
    twin = note(1)

    def unit(conn: sa.Connection) -> None:
        _ANSWERING.fetch_later(conn, [note(0)])
        _INSERT.write(conn, [twin, twin])

    with pytest.raises(sa.exc.IntegrityError):
        uow.run(unit)
    assert numbers(uow) == []
    # The connection is as good as before.
    uow.run(lambda conn: _INSERT.write(conn, [note(2)]))
    assert numbers(uow) == [2]


def test_rows_are_not_asked_for_before_they_were_sent(on_mariadb: UnitOfWork) -> None:
    with on_mariadb.engine.connect() as conn:
        answer = _ANSWERING.fetch_later(conn, [note(0)])
        with pytest.raises(AssertionError):
            answer()
        later.send_kept(conn)
        assert [n for _id, n, _title in answer()] == [0]


def test_a_counted_write_travels_with_the_commit(on_mariadb: UnitOfWork) -> None:
    known = on_mariadb.run(lambda conn: write(conn, n=7))
    with on_mariadb.engine.connect() as conn:
        _COUNT_UP.write(conn, [known], expect=1)
        assert getattr(conn.connection.dbapi_connection, later._KEPT)
        conn.commit()
    assert numbers(on_mariadb) == [8]


@pytest.mark.parametrize("code", [1317, 1969], ids=["killed", "took too long"])
def test_an_interruption_after_the_commit_is_no_failure(
    on_mariadb: UnitOfWork, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """CI-9. KILL QUERY may hit what holds the COMMIT behind it: the server says it was ended, and it is stored."""
    really, interruptions = later._run, [code]

    def run(connection: Any, kept: list[later._Kept]) -> None:
        late = f"SIGNAL SQLSTATE '70100' SET MYSQL_ERRNO = {interruptions.pop()}" if interruptions else "DO 0"
        really(connection, [*kept, later._Kept(late, None)])

    monkeypatch.setattr(later, "_run", run)
    known = note(7)

    def found(conn: sa.Connection) -> str | None:
        return conn.execute(sa.select(sa.literal("found")).where(NOTES.c.id == known["id"])).scalar()

    def unit(conn: sa.Connection) -> str:
        _INSERT.write(conn, [known])
        return "stored"

    assert on_mariadb.run(unit, landed=found) == "found"
    assert numbers(on_mariadb) == [7]

    interruptions.append(code)
    with pytest.raises(CommitOutcomeUnknown):
        on_mariadb.run(lambda conn: _INSERT.write(conn, [note(8)]))
    assert numbers(on_mariadb) == [7, 8]


@pytest.mark.parametrize("code", [1317, 1969], ids=["killed", "took too long"])
def test_an_interruption_before_the_commit_is_an_error_as_ever(on_mariadb: UnitOfWork, code: int) -> None:
    def unit(conn: sa.Connection) -> None:
        _INSERT.write(conn, [note(7)])
        conn.exec_driver_sql(f"SIGNAL SQLSTATE '70100' SET MYSQL_ERRNO = {code}")

    with pytest.raises(sa.exc.DBAPIError):
        on_mariadb.run(unit, repeatable=True)
    assert numbers(on_mariadb) == []
