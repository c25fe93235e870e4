"""Creation inside a caller's transaction: all or nothing with the caller's rows, and never half of it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from engine.errors import (
    CallerTransactionLostError,
    IdempotencyConflictError,
    InvalidCreateFieldError,
    InvalidPayloadError,
    TransactionNotSupportedError,
)
from engine.intake.wake import WakeHint
from outbox.base.db import prepare_engine
from outbox.transports.base import Ticket
from outbox.transports.memory import MemoryTransport
from registry.job import JobView
from tests.support.crowd import at_once
from tests.support.faults import refusing
from tests.support.migrated import engine_for
from tests.support.world import World

NOTHING = dict.fromkeys(
    ("ai_job", "ai_job_snapshot", "ai_job_output", "ai_job_claim", "ai_job_artifact", "outbox_event"), 0
)
CREATED = NOTHING | {"ai_job": 1, "ai_job_snapshot": 1, "outbox_event": 1}

_NOTE = sa.Table("note", sa.MetaData(), sa.Column("id", sa.Integer, primary_key=True))


class Hints(WakeHint):
    """Counts how often it is asked, and tells nobody."""

    def __init__(self) -> None:
        super().__init__(MemoryTransport())
        self.sent = 0
        self.sending: Callable[[], object] = lambda: None

    def send(self, queues: Iterable[str], tickets: Sequence[Ticket] = ()) -> None:
        self.sent += 1
        self.sending()


@pytest.fixture
def hints(world: World) -> Hints:
    hints = Hints()
    world.app.__dict__["wake"] = hints
    return hints


@pytest.fixture
def host(tables_url: str) -> Iterator[sa.Engine]:
    """A host application's engine, with a table of its own."""
    with engine_for(tables_url) as engine:
        _NOTE.create(engine)
        yield engine
        _NOTE.drop(engine)


@pytest.fixture
def isolated(tables_url: str) -> Iterator[Callable[[str], sa.Engine]]:
    """Function (isolation level) -> a host's engine of that level, which only SQLite's needs to be prepared."""
    engines: list[sa.Engine] = []

    def make(level: str) -> sa.Engine:
        engine = sa.create_engine(tables_url, isolation_level=level)
        engines.append(prepare_engine(engine) if engine.dialect.name == "sqlite" else engine)
        return engines[-1]

    yield make
    for engine in engines:
        engine.dispose()


def notes(host: sa.Engine) -> int:
    with host.connect() as conn:
        return int(conn.execute(sa.select(sa.func.count()).select_from(_NOTE)).scalar_one())


def add_note(session: Session | sa.Connection) -> None:
    session.execute(sa.insert(_NOTE).values(id=1))


# -- one fact with the caller's rows -------------------------------------------------------------------


def test_a_sessions_commit_makes_rows_and_job_together(world: World, host: sa.Engine) -> None:
    """CI-7. One transaction for the caller's rows, job, snapshot and event; nothing of it commits by itself."""
    with Session(host) as session:
        add_note(session)
        job = world.create(session=session)
        if host.dialect.name != "sqlite":
            assert world.counts() == NOTHING
        session.commit()

    assert notes(host) == 1
    assert world.counts() == CREATED
    assert world.job(job.id) == job


def test_a_sessions_rollback_takes_everything_back(world: World, host: sa.Engine) -> None:
    """CI-7."""
    with Session(host) as session:
        add_note(session)
        world.create(session=session)
        session.rollback()

    assert notes(host) == 0
    assert world.counts() == NOTHING


def test_an_error_of_the_caller_takes_everything_back(world: World, host: sa.Engine) -> None:
    def act() -> None:
        with Session(host) as session, session.begin():
            world.create(session=session)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        act()
    assert world.counts() == NOTHING


def test_a_connection_carries_jobs_too(world: World, host: sa.Engine) -> None:
    with host.begin() as conn:
        add_note(conn)
        world.create(session=conn)
    with host.connect() as conn:
        world.create(session=conn)
        conn.rollback()

    assert world.counts() == CREATED


def test_many_jobs_in_one_callers_transaction(world: World, host: sa.Engine) -> None:
    with Session(host) as session:
        world.app.jobs.create_jobs([world.request() for _ in range(3)], session=session)
        world.create(session=session, key="k")
        assert not world.created(session=session, key="k").created
        session.commit()

    assert world.counts()["outbox_event"] == 4


def test_a_savepoint_that_is_rolled_back_takes_its_job_along(world: World, host: sa.Engine) -> None:
    with Session(host) as session:
        kept = world.create(session=session)
        savepoint = session.begin_nested()
        world.create(session=session)
        savepoint.rollback()
        with session.begin_nested():
            also_kept = world.create(session=session)
        session.commit()

    assert {row["id"] for row in world.rows("ai_job")} == {kept.id, also_kept.id}
    assert world.counts()["outbox_event"] == 2


DRIVERS = {"sqlite": "sqlite+aiosqlite", "mariadb": "mariadb+asyncmy", "postgresql": "postgresql+asyncpg"}


async def test_an_async_session_carries_jobs(world: World, tables_url: str) -> None:
    """Design 3: the same core through `run_sync`; commit and rollback are the caller's."""
    url = sa.make_url(tables_url)
    engine = create_async_engine(url.set(drivername=DRIVERS[url.get_backend_name()]))
    prepare_engine(engine.sync_engine)
    try:
        async with AsyncSession(engine) as session:
            created = await world.app.jobs.acreate_job(world.request(key="k"), session=session)
            await session.commit()
        async with AsyncSession(engine) as session:
            again = await world.app.jobs.acreate_jobs([world.request(key="k"), world.request()], session=session)
            await session.rollback()
    finally:
        await engine.dispose()

    assert [one.created for one in again] == [False, True]
    assert world.counts() == CREATED
    assert world.job(created.job.id).idempotency_key == "k"


async def test_an_async_caller_without_a_session_does_not_block_its_loop(world: World) -> None:
    created = await world.app.jobs.acreate_job(world.request())

    assert created.created
    assert world.counts() == CREATED


# -- the hint ----------------------------------------------------------------------------------------------


def test_the_hint_comes_after_the_outermost_commit(world: World, hints: Hints, host: sa.Engine) -> None:
    """Design 7: not at a savepoint's release, not at a flush, and once for each creation."""
    with Session(host) as session:
        world.create(session=session)
        with session.begin_nested():
            world.create(session=session)
        session.flush()
        assert hints.sent == 0
        session.commit()
        assert hints.sent == 2
        session.execute(sa.select(sa.literal(1)))
        session.commit()
        assert hints.sent == 2

        world.create(session=session)
        session.commit()
    assert hints.sent == 3


def test_a_rollback_sends_no_hint(world: World, hints: Hints, host: sa.Engine) -> None:
    with Session(host) as session:
        world.create(session=session)
        session.rollback()
        session.execute(sa.select(sa.literal(1)))
        session.commit()
    with host.connect() as conn:
        world.create(session=conn)
        conn.rollback()
    with host.connect() as conn:
        world.create(session=conn)

    assert hints.sent == 0


def test_a_connections_hint_comes_after_its_commit_was_sent(
    world: World, hints: Hints, host: sa.Engine
) -> None:
    """Its commit event fires before COMMIT is sent: a hint from there would come too early."""
    seen: list[int] = []
    hints.sending = lambda: seen.append(len(world.rows("ai_job")))
    with host.connect() as conn:
        world.create(session=conn)
        conn.commit()
        assert (hints.sent, seen) == (1, [1])
        conn.execute(sa.select(sa.literal(1)))
        conn.commit()
    assert hints.sent == 1


def test_a_copy_of_an_engine_sends_hints_whichever_came_first(
    world: World, hints: Hints, host: sa.Engine
) -> None:
    """Engines made by `execution_options` share their connections."""
    for engine in (host.execution_options(logging_token="copy"), host, host.execution_options()):
        with engine.begin() as conn:
            world.create(session=conn)

    assert hints.sent == 3


@pytest.mark.databases("mariadb")
def test_a_transaction_in_two_phases_hints_after_the_second(
    world: World, database_kind: str, hints: Hints, host: sa.Engine
) -> None:
    with Session(host, twophase=True) as session:
        world.create(session=session)
        session.rollback()
        world.create(session=session)
        session.prepare()
        assert hints.sent == 0
        session.commit()

    assert hints.sent == 1
    assert world.counts() == CREATED


@pytest.mark.parametrize("event", ["begin", "commit", "rollback", "checkin", "checkout", "before_cursor_execute"])
def test_the_first_job_on_an_engine_disturbs_nobody_who_uses_it(
    world: World, host: sa.Engine, event: str
) -> None:
    """An engine walks its listeners in every thread: one that is added then breaks the statement of a stranger."""
    made: list[Any] = []

    def create() -> JobView:
        with host.begin() as conn:
            return world.create(session=conn)

    def create_in_another_thread(*_event: Any) -> None:
        if not made:
            made.append("begun")
            made.extend(at_once([create]))

    sa.event.listen(host.pool if event.startswith("check") else host, event, create_in_another_thread)
    for end in (sa.Connection.rollback, sa.Connection.commit):
        # On SQLite a stranger that only reads: two writers wait for each other there.
        with host.connect().execution_options(aijobs_reading=True) as conn:
            conn.execute(sa.select(sa.literal(1)))
            end(conn)

    assert [world.job(job.id) for job in made[1:]] == made[1:]
    assert world.counts() == CREATED


def test_other_acts_in_the_same_transaction_do_not_take_the_hint_away(
    world: World, hints: Hints, host: sa.Engine
) -> None:
    with Session(host) as session:
        job = world.create(session=session)
        world.create(session=session)
        world.app.jobs.request_cancel(job.id, session=session)
        session.commit()

    assert hints.sent == 2


def test_our_own_transaction_hints_after_its_commit(world: World, hints: Hints) -> None:
    world.create()

    assert hints.sent == 1


# -- what cannot carry a job ------------------------------------------------------------------------------


@pytest.mark.databases("sqlite")
def test_an_unprepared_sqlite_engine_is_refused(world: World, database_kind: str, tables_url: str) -> None:
    """DB-5. Deferred transactions of two writers fail at once; the message names the cure."""
    engine = sa.create_engine(tables_url)
    with Session(engine) as session, pytest.raises(TransactionNotSupportedError, match="prepare_engine"):
        world.create(session=session)
    engine.dispose()

    assert world.counts() == NOTHING


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
@pytest.mark.databases("postgresql")
def test_postgresql_above_read_committed_is_refused(
    world: World, database_kind: str, isolated: Callable[[str], sa.Engine], level: str
) -> None:
    """CI-1. There the loser of a race cannot see the winner."""
    with Session(isolated(level)) as session, pytest.raises(TransactionNotSupportedError, match="READ COMMITTED"):
        world.create(session=session)

    assert world.counts() == NOTHING


def test_a_connection_without_transactions_is_refused(
    world: World, database_kind: str, isolated: Callable[[str], sa.Engine]
) -> None:
    """Promise 1. In AUTOCOMMIT job and event would be two facts; a prepared SQLite engine begins all the same."""
    with isolated("AUTOCOMMIT").connect() as conn:
        if database_kind == "sqlite":
            world.create(session=conn)
            conn.rollback()
        else:
            with pytest.raises(TransactionNotSupportedError, match="AUTOCOMMIT"):
                world.create(session=conn)

    assert world.counts() == NOTHING


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE", "READ UNCOMMITTED"])
@pytest.mark.databases("mariadb")
def test_mariadb_works_at_every_isolation(
    world: World, database_kind: str, isolated: Callable[[str], sa.Engine], level: str
) -> None:
    """CI-1, DB-2. The caller's snapshot is older than the winner's commit, and the winner is found all the same."""
    with Session(isolated(level)) as session:
        session.execute(sa.select(sa.func.count()).select_from(world.table("ai_job"))).all()
        winner = world.create(key="k") if level != "SERIALIZABLE" else None
        found = world.created(session=session, key="k")
        other = world.created(session=session)
        session.commit()

    assert other.created
    assert winner is None or (found.job.id, found.created) == (winner.id, False)
    assert world.counts()["outbox_event"] == 2


@pytest.mark.databases("mariadb")
def test_callers_at_repeatable_read_race_one_key(
    world: World, database_kind: str, isolated: Callable[[str], sa.Engine]
) -> None:
    """CI-1, DB-2. Whoever loses gets the winner's job, or is told that its transaction is lost: never another job."""
    engine = isolated("REPEATABLE READ")

    def create() -> Any:
        with Session(engine) as session:
            session.execute(sa.select(sa.func.count()).select_from(world.table("ai_job"))).all()
            made = world.create(session=session, key="k")
            session.commit()
        return made.id

    answers = at_once([create] * 8)

    assert len({a for a in answers if not isinstance(a, CallerTransactionLostError)}) == 1, answers
    assert world.counts() == CREATED


@pytest.mark.parametrize("what", [object(), "session", None.__class__, 1])
def test_something_that_is_no_session_is_refused(world: World, what: Any) -> None:
    with pytest.raises(InvalidCreateFieldError, match="session"):
        world.create(session=what)


async def test_an_async_session_in_the_sync_call_is_refused_with_the_way_out(
    world: World, tables_url: str
) -> None:
    async with AsyncSession() as session:
        with pytest.raises(InvalidCreateFieldError, match="acreate_job"):
            world.create(session=session)


def test_a_scoped_session_is_a_session(world: World, host: sa.Engine) -> None:
    """What web frameworks hand out."""
    session = scoped_session(sessionmaker(host))
    world.create(session=session)
    session.commit()
    session.remove()

    assert world.counts() == CREATED


# -- a transaction that is lost ------------------------------------------------------------------------------

WRITES = ["INTO ai_job ", "INTO ai_job_snapshot", "INTO outbox_event"]


@pytest.mark.parametrize("write", WRITES)
def test_a_session_in_which_a_statement_failed_can_only_be_rolled_back(
    world: World, host: sa.Engine, write: str
) -> None:
    """CI-8, PC-2. The error is typed, COMMIT is refused, nothing is stored, and the session is fine afterwards."""
    with Session(host) as session:
        add_note(session)
        with refusing(host, write) as refused, pytest.raises(CallerTransactionLostError):
            world.create(session=session)
        assert refused
        with pytest.raises(CallerTransactionLostError):
            session.commit()
        session.rollback()
        assert world.counts() == NOTHING
        assert notes(host) == 0

        world.create(session=session)
        session.commit()
    assert world.counts() == CREATED


def test_a_hook_that_swallows_the_error_cannot_commit_half_a_job(
    world: World, hints: Hints, host: sa.Engine
) -> None:
    """CI-8. A hook of the session's class, which is called while the commit is under way already."""

    class Hooked(Session):
        """A host's own."""

    @sa.event.listens_for(Hooked, "before_commit")
    def before_commit(session: Session) -> None:
        with refusing(host, "INTO ai_job_snapshot"), contextlib.suppress(CallerTransactionLostError):
            world.create(session=session)

    with Hooked(host) as session:
        add_note(session)
        world.create(session=session)
        with pytest.raises(CallerTransactionLostError):
            session.commit()
        session.rollback()

    assert (world.counts(), notes(host), hints.sent) == (NOTHING, 0, 0)


@pytest.mark.databases("mariadb")
@pytest.mark.parametrize("ends", [sa.TwoPhaseTransaction.prepare, sa.TwoPhaseTransaction.commit])
def test_a_transaction_in_two_phases_in_which_a_statement_failed_can_only_be_rolled_back(
    world: World, database_kind: str, host: sa.Engine, ends: Callable[[sa.TwoPhaseTransaction], None]
) -> None:
    """CI-8."""
    with host.connect() as conn:
        transaction = conn.begin_twophase()
        add_note(conn)
        with refusing(host, "INTO ai_job_snapshot"), pytest.raises(CallerTransactionLostError):
            world.create(session=conn)
        with pytest.raises(CallerTransactionLostError):
            ends(transaction)
        conn.rollback()
        assert (world.counts(), notes(host)) == (NOTHING, 0)

        world.create(session=conn)
        conn.commit()
    assert world.counts() == CREATED


@pytest.mark.parametrize("write", WRITES)
def test_a_connection_in_which_a_statement_failed_can_only_be_rolled_back(
    world: World, host: sa.Engine, write: str
) -> None:
    """CI-8."""
    with host.connect() as conn:
        add_note(conn)
        with refusing(host, write), pytest.raises(CallerTransactionLostError):
            world.create(session=conn)
        with pytest.raises(CallerTransactionLostError):
            conn.commit()
        conn.rollback()
        assert world.counts() == NOTHING
        assert notes(host) == 0

        world.create(session=conn)
        conn.commit()
    with pytest.raises(CallerTransactionLostError), host.begin() as conn, refusing(host, write):
        world.create(session=conn)
    assert world.counts() == CREATED


def test_swallowing_the_error_does_not_commit_half(world: World, host: sa.Engine) -> None:
    """CI-8. The caller catches it and goes on: COMMIT raises."""
    def act() -> None:
        with Session(host) as session, session.begin():
            add_note(session)
            with refusing(host, "INTO outbox_event"), contextlib.suppress(CallerTransactionLostError):
                world.create(session=session)

    with pytest.raises(CallerTransactionLostError):
        act()
    assert notes(host) == 0
    assert world.counts() == NOTHING


@pytest.mark.parametrize("error", [TimeoutError, KeyboardInterrupt], ids=lambda error: error.__name__)
@pytest.mark.parametrize("joins", ["session", "connection"])
def test_a_create_that_was_cut_short_is_not_committed_half(
    world: World, host: sa.Engine, monkeypatch: pytest.MonkeyPatch, error: type[BaseException], joins: str
) -> None:
    """CI-8. A signal handler of the caller's may raise anywhere, so between the job and its event too."""

    def cut(*_arguments: Any) -> None:
        raise error

    with Session(host) if joins == "session" else host.connect() as session:
        add_note(session)
        with monkeypatch.context() as cutting:
            cutting.setattr(world.app.outbox, "append", cut)
            with pytest.raises(error):
                world.create(session=session)
        with pytest.raises(CallerTransactionLostError):
            session.commit()
        session.rollback()
        assert world.counts() == NOTHING
        assert notes(host) == 0

        world.create(session=session)
        session.commit()
    assert world.counts() == CREATED


@pytest.mark.databases("mariadb", "postgresql")
@pytest.mark.parametrize("joins", ["session", "connection"])
def test_a_lost_connection_loses_the_callers_transaction(
    world: World, database_kind: str, host: sa.Engine, joins: str
) -> None:
    """CI-8. The error is typed here too, and COMMIT is refused by whoever notices first."""
    kill = {
        "mariadb": ("SELECT CONNECTION_ID()", "KILL {}"),
        "postgresql": ("SELECT pg_backend_pid()", "SELECT pg_terminate_backend({})"),
    }
    whoami, end = kill[database_kind]
    with Session(host) if joins == "session" else host.connect() as session:
        add_note(session)
        victim = session.execute(sa.text(whoami)).scalar_one()
        with host.connect() as killer:
            killer.exec_driver_sql(end.format(victim))
        with pytest.raises(CallerTransactionLostError):
            world.create(session=session)
        with pytest.raises((CallerTransactionLostError, sa.exc.PendingRollbackError)):
            session.commit()
        session.rollback()

        world.create(session=session)
        session.commit()
    assert notes(host) == 0
    assert world.counts() == CREATED


@pytest.mark.databases("mariadb", "postgresql")
def test_a_lock_wait_inside_the_callers_transaction_loses_all_of_it(
    world: World, database_kind: str, host: sa.Engine
) -> None:
    """CI-8. MariaDB undoes one statement at 1205 and leaves the rest open; nothing of it may be kept."""
    shorter = {"mariadb": "SET innodb_lock_wait_timeout = 1", "postgresql": "SET lock_timeout = '200ms'"}
    with Session(host) as rival, Session(host) as session:
        world.create(session=rival, key="k")
        session.execute(sa.text(shorter[database_kind]))
        add_note(session)
        with pytest.raises(CallerTransactionLostError):
            world.create(session=session, key="k")
        with pytest.raises(CallerTransactionLostError):
            session.commit()
        session.rollback()
        rival.commit()

    assert notes(host) == 0
    assert world.counts() == CREATED


@pytest.mark.parametrize("wrong", [{"payload": {"sleep_ms": -1}}, {"user_id": ""}])
def test_bad_input_does_not_cost_the_caller_its_transaction(
    world: World, host: sa.Engine, wrong: dict[str, Any]
) -> None:
    """Nothing was sent to the database, so the caller may go on and commit."""
    with Session(host) as session:
        add_note(session)
        with pytest.raises((InvalidPayloadError, InvalidCreateFieldError)):
            world.create(session=session, **wrong)
        session.commit()

    assert notes(host) == 1
    assert world.counts() == NOTHING


def test_a_conflict_does_not_cost_the_caller_its_transaction(world: World, host: sa.Engine) -> None:
    """CI-5. It is an answer, not a database error; the caller may commit its own rows."""
    world.create(key="k")
    with Session(host) as session:
        add_note(session)
        with pytest.raises(IdempotencyConflictError):
            world.create(session=session, key="k", target_id="other")
        session.commit()

    assert notes(host) == 1
    assert world.counts() == CREATED


@pytest.mark.databases("mariadb", "postgresql")
def test_a_replayed_key_in_a_long_transaction_does_not_hold_the_worker_up(
    world: World, database_kind: str, host: sa.Engine
) -> None:
    """WL-2, OB-6. The caller keeps its transaction open; the job's heartbeat and end go on."""
    job = world.create(key="k")
    lease = world.claim(job.id)
    with Session(host) as session:
        assert not world.created(session=session, key="k").created
        with world.engine.begin() as conn:
            conn.execute(sa.text({
                "mariadb": "SET innodb_lock_wait_timeout = 1", "postgresql": "SET LOCAL lock_timeout = '500ms'",
            }[database_kind]))  # fmt: skip
            world.app.lifecycle.heartbeat(conn, [lease], lease_ms=60_000)
            assert world.app.lifecycle.mark_succeeded(conn, [lease]) == 1
            conn.execute(sa.text("SET innodb_lock_wait_timeout = 3")) if database_kind == "mariadb" else None
        session.commit()

    assert world.job(job.id).lifecycle_status == "succeeded"
