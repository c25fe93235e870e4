"""ADR 15: a creator puts its ticket right after the commit where nothing waits, and nothing depends on it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from engine.intake.early import MOST
from engine.intake.wake import dispatcher_channel
from outbox.base.points import Point
from outbox.scores import Score
from outbox.transports.base import Delivery, Settlement, Ticket
from outbox.transports.memory import MemoryTransport
from tests.engine.path.account import killed_at
from tests.support.flaky import FlakyTransport
from tests.support.wait import PATIENCE_S, eventually
from tests.support.world import LEASE_MS, QUEUE, World

PATIENCE_MS = round(PATIENCE_S * 1000)
#: Long enough for any release of this engine to have put something.
A_MOMENT_MS = 100
INSTANT = datetime(2090, 2, 3, 4, 5, 6, 789_999, tzinfo=UTC)

#: What a connection is called, and how another one ends it.
KILL = {
    "mariadb": ("SELECT CONNECTION_ID()", "KILL {}"),
    "postgresql": ("SELECT pg_backend_pid()", "SELECT pg_terminate_backend({})"),
}

Make = Callable[..., World]


@pytest.fixture
def early(make_world: Make) -> World:
    """A world whose creators put first deliveries themselves."""
    return make_world(dispatcher={"early": True})


def arrived(world: World) -> list[Delivery]:
    """What a worker gets first, waiting for it."""
    assert world.transport.wait(QUEUE, PATIENCE_MS), "no ticket was put"
    return world.transport.claim(QUEUE, 64, "worker-a", LEASE_MS)


def hinted(world: World) -> bool:
    return world.transport.wait_wake([dispatcher_channel(QUEUE)], PATIENCE_MS) is not None


def statuses(world: World, job_id: Any) -> list[str]:
    return [event.status for event in world.deliveries(job_id)]


def test_a_first_delivery_needs_no_dispatcher_where_nothing_waits(early: World) -> None:
    job = early.create()

    [delivery] = arrived(early)

    assert (delivery.ticket.job_id, delivery.ticket.delivery_no) == (job.id, 1)
    assert statuses(early, job.id) == ["pending"]
    eventually(lambda: early.count("outbox.early") == 1)


def test_what_is_put_early_is_what_the_dispatcher_puts(early: World) -> None:
    """The same ticket at the same place, but for the times at which they were written."""
    early.create(priority=7)
    [first] = arrived(early)
    early.transport.finish_many("worker-a", [(first, Settlement.FINISHED)])

    early.dispatch()
    [second] = arrived(early)

    def known(ticket: Ticket) -> tuple[Any, ...]:
        return ticket.job_id, ticket.job_type, ticket.queue_name, ticket.delivery_no, ticket.traceparent

    assert known(first.ticket) == known(second.ticket)
    # Job and event are stamped by one transaction, each when its row was written.
    assert 0 <= second.ticket.deliver_score - first.ticket.deliver_score < PATIENCE_MS


def test_the_dispatchers_put_of_it_is_a_no_op_and_the_event_is_published(early: World) -> None:
    job = early.create()
    [delivery] = arrived(early)

    early.dispatch()

    assert early.depth() == 0
    assert statuses(early, job.id) == ["published"]
    assert early.transport.finish_many("worker-a", [(delivery, Settlement.FINISHED)]) == [True]


def test_a_job_that_ended_before_its_event_was_looked_at_leaves_nothing_to_dispatch(early: World) -> None:
    job = early.create()
    assert early.transport.wait(QUEUE, PATIENCE_MS)

    early.work()
    early.dispatch()

    assert early.job(job.id).lifecycle_status == "succeeded"
    assert statuses(early, job.id) == ["obsolete"]
    assert early.depth() == 0


def test_a_ticket_that_comes_after_the_jobs_end_is_taken_off_and_runs_nothing(early: World) -> None:
    """The creator's thread may come to it at any time."""
    job = early.create()
    [delivery] = arrived(early)
    early.transport.defer_many([(delivery, 0)])
    early.work()

    early.transport.put_many([delivery.ticket], if_idle=True)
    early.work()

    assert len(early.claims(job.id)) == 1
    assert early.transport.alive([(QUEUE, job.job_type, job.id)]) == [False]


def test_where_others_wait_a_dispatcher_is_hinted_at_and_keeps_the_order(early: World) -> None:
    first = early.create()
    assert early.transport.wait(QUEUE, PATIENCE_MS)

    second = early.create()

    assert hinted(early)
    assert early.depth() == 1
    early.dispatch()
    assert [delivery.ticket.job_id for delivery in arrived(early)] == [first.id, second.id]


def test_many_jobs_at_once_are_left_to_the_dispatchers(early: World) -> None:
    early.app.jobs.create_jobs([early.request() for _ in range(MOST + 1)])

    assert hinted(early)
    assert early.depth() == 0


def test_a_few_jobs_at_once_are_all_put(early: World) -> None:
    made = early.app.jobs.create_jobs([early.request() for _ in range(MOST)])

    assert [delivery.ticket.job_id for delivery in arrived(early)] == [each.job.id for each in made]


def test_a_later_job_is_not_put(early: World) -> None:
    later = early.app.uow.read(early.app.clock.read) + timedelta(minutes=5)
    early.create(available_at=later)

    assert hinted(early)
    assert early.depth() == 0


def test_a_repeated_key_is_not_put_again(early: World) -> None:
    early.create(key="k")
    [delivery] = arrived(early)
    early.transport.finish_many("worker-a", [(delivery, Settlement.FINISHED)])

    assert not early.created(key="k").created

    assert hinted(early)
    assert early.depth() == 0


def test_in_a_callers_transaction_it_is_put_after_the_commit_only(early: World) -> None:
    with early.engine.connect() as conn:
        early.create(session=conn)
        conn.rollback()
    with early.engine.connect() as conn:
        job = early.create(session=conn)
        assert not early.transport.wait(QUEUE, A_MOMENT_MS)
        conn.commit()

    assert [delivery.ticket.job_id for delivery in arrived(early)] == [job.id]


@pytest.mark.parametrize("opened", [Session, sa.Engine.connect])
def test_what_was_rolled_back_to_a_savepoint_is_not_put(
    early: World, opened: Callable[[sa.Engine], Session | sa.Connection]
) -> None:
    with opened(early.engine) as outer:
        early.create(session=outer)
        with outer.begin_nested() as inner:
            early.create(session=outer)
            inner.rollback()
        outer.commit()

    assert hinted(early)
    assert early.depth() == 0


@pytest.mark.parametrize("end", [sa.Connection.rollback, sa.Connection.close])
def test_each_transaction_of_a_connection_is_for_itself(
    early: World, end: Callable[[sa.Connection], None]
) -> None:
    with early.engine.connect() as conn:
        kept = early.create(session=conn)
        conn.commit()
        early.create(session=conn)
        end(conn)
    early.app.wake.close()

    assert [delivery.ticket.job_id for delivery in arrived(early)] == [kept.id]


def test_a_connection_that_is_never_given_back_puts_at_each_commit(early: World) -> None:
    """And keeps nothing of the last one: a program may live with one connection for ever."""
    with early.engine.connect() as conn:
        job = early.create(session=conn)
        conn.commit()

        assert [delivery.ticket.job_id for delivery in arrived(early)] == [job.id]
        assert not conn.info


def test_a_session_inside_a_transaction_of_its_caller_puts_when_that_commits(early: World) -> None:
    """As test suites have it: a commit of the session's makes nothing visible."""
    with early.engine.connect() as conn:
        for end in (sa.Transaction.rollback, sa.Transaction.commit):
            outer = conn.begin()
            with Session(conn, join_transaction_mode="create_savepoint") as session:
                job = early.create(session=session)
                session.commit()
            assert not early.transport.wait(QUEUE, A_MOMENT_MS)
            end(outer)

    assert [delivery.ticket.job_id for delivery in arrived(early)] == [job.id]


@pytest.mark.databases("mariadb", "postgresql")
@pytest.mark.parametrize("opened", [Session, sa.Engine.connect])
def test_a_commit_that_is_not_answered_puts_nothing_and_hints(
    early: World, database_kind: str, opened: Callable[[sa.Engine], Session | sa.Connection]
) -> None:
    """It may be stored: a dispatcher sees what is."""
    whoami, end = KILL[database_kind]
    with opened(early.engine) as outer:
        early.create(session=outer)
        victim = outer.execute(sa.text(whoami)).scalar_one()
        with early.engine.connect() as killer:
            killer.exec_driver_sql(end.format(victim))
        with pytest.raises(sa.exc.DBAPIError):
            outer.commit()

    assert hinted(early)
    assert early.depth() == 0


def test_what_a_savepoint_kept_is_put(early: World) -> None:
    with Session(early.engine) as session:
        with session.begin_nested():
            job = early.create(session=session)
        session.commit()

    assert [delivery.ticket.job_id for delivery in arrived(early)] == [job.id]


def test_a_job_that_was_due_before_it_was_created_stands_where_its_event_says(early: World) -> None:
    """Design 8: max(created, available_at). A creator's clock or wish puts nothing ahead of who came before."""
    job = early.create(available_at=datetime(2001, 2, 3, tzinfo=UTC))

    [delivery] = arrived(early)

    [event] = early.rows("outbox_event", aggregate_id=job.id)
    assert 0 <= event["deliver_score"] - delivery.ticket.deliver_score < PATIENCE_MS


def test_without_a_broker_the_job_is_created_and_its_event_waits(make_world: Make) -> None:
    transport = FlakyTransport(MemoryTransport())
    world = make_world(transport, dispatcher={"early": True})
    transport.away = True
    job = world.create()
    world.app.wake.close()

    transport.away = False
    world.dispatch()

    assert [delivery.ticket.job_id for delivery in arrived(world)] == [job.id]


def test_a_ticket_that_is_refused_is_the_dispatchers_to_deal_with(make_world: Make) -> None:
    transport = FlakyTransport(MemoryTransport())
    world = make_world(transport, dispatcher={"early": True, "max_attempts": 1})
    transport.refuses = lambda _ticket: True
    job = world.create()
    assert hinted(world)

    world.dispatch()

    assert statuses(world, job.id) == ["dead"]


def test_a_creator_that_dies_after_its_commit_leaves_it_to_the_dispatchers(early: World) -> None:
    with killed_at(Point.CREATE_AFTER_COMMIT):
        early.create()
    assert not early.transport.wait(QUEUE, A_MOMENT_MS)

    early.dispatch()

    assert len(arrived(early)) == 1


def test_it_can_be_switched_off(make_world: Make) -> None:
    world = make_world(dispatcher={"early": False})
    world.create()

    assert hinted(world)
    assert world.depth() == 0


def test_a_first_delivery_has_the_same_score_in_python_and_in_sql(early: World) -> None:
    """Design 8: one score in SQL and in Redis, from the same instant."""
    job = early.create(priority=3, available_at=INSTANT)

    [event] = early.rows("outbox_event", aggregate_id=job.id)

    assert event["deliver_score"] == Score(1_000).first(3, INSTANT)


def test_a_lost_broker_costs_an_early_ticket_nothing(early: World) -> None:
    """Promise 2: its event is still there."""
    job = early.create()
    [delivery] = arrived(early)
    early.transport.finish_many("worker-a", [(delivery, Settlement.FINISHED)])

    early.settle()

    assert early.job(job.id).lifecycle_status == "succeeded"
