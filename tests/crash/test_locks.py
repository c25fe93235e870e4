"""One transaction that stands still, a frozen process's say, holds up its own rows and nobody else's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

import pytest
import sqlalchemy as sa

from tests.support.world import LEASE_S, World


@pytest.fixture
def world(server_url: str) -> Iterator[World]:
    with World(server_url) as world:
        yield world


@contextmanager
def standing_still(world: World, table: str, row_id: UUID) -> Iterator[None]:
    """A transaction of somebody else that has changed the row and does not end."""
    target = world.table(table)
    with world.engine.connect() as conn:
        conn.execute(sa.select(target.c.id).where(target.c.id == row_id).with_for_update())
        yield
        conn.rollback()


def test_upkeep_takes_the_others_over_while_one_job_is_held_up(world: World) -> None:
    held_up, other = world.claimed(), world.claimed()
    world.advance(LEASE_S + 1)

    with standing_still(world, "ai_job", held_up.job_id):
        world.upkeep()

        assert [e.delivery_no for e in world.deliveries(other.job_id)] == [1, 2]
        assert [e.delivery_no for e in world.deliveries(held_up.job_id)] == [1]
        assert world.count("upkeep.held_up") == 1

    world.upkeep()
    assert [e.delivery_no for e in world.deliveries(held_up.job_id)] == [1, 2]


def test_upkeep_delivers_the_others_again_while_one_job_is_held_up(world: World) -> None:
    held_up, other = world.create(), world.create()
    world.dispatch()
    world.transport.claim("ai-background", 2, "lost", 1)
    world.advance(1)
    for job in (held_up, other):
        world.transport.cancel("ai-background", job.job_type, job.id)
    world.advance(300)

    with standing_still(world, "ai_job", held_up.id):
        world.upkeep()

        assert [e.delivery_no for e in world.deliveries(other.id)] == [1, 2]
        assert [e.delivery_no for e in world.deliveries(held_up.id)] == [1]


def test_expired_outbox_claims_are_released_while_one_is_held_up(world: World) -> None:
    jobs = [world.create(), world.create()]
    outbox = world.app.outbox
    world.run(lambda conn: outbox.claim(conn, "ai-background", ["ai.job.enqueue"], limit=9, owner="gone"))
    world.advance(61)
    [held_up], [other] = (world.deliveries(job.id) for job in jobs)

    with standing_still(world, "outbox_event", held_up.id):
        world.upkeep()

        assert world.deliveries(jobs[1].id)[0].status == "pending"
        assert world.deliveries(jobs[0].id)[0].status == "processing"

    assert other.status == "processing"


def test_deliveries_of_one_batch_are_marked_while_the_job_of_one_is_held_up(world: World) -> None:
    """OB-8. A worker that was frozen while it claimed: what its ticket brought must not stop the dispatcher."""
    held_up, other = world.create(), world.create()

    with standing_still(world, "ai_job", held_up.id):
        world.dispatch()

        for job in (held_up, other):
            assert {row["status"] for row in world.rows("outbox_event", aggregate_id=job.id)} == {"published"}


def test_jobs_of_one_batch_run_while_one_of_them_is_held_up(world: World) -> None:
    held_up, other = world.create(), world.create()
    world.dispatch()

    with standing_still(world, "ai_job", held_up.id):
        world.work()

        assert world.job(other.id).lifecycle_status == "succeeded"
        assert world.job(held_up.id).lifecycle_status == "queued"

    world.settle()
    assert world.job(held_up.id).attempt_count == 1


def test_round_of_upkeep_goes_on_after_a_job_that_cannot_be_healed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken, other = world.claimed(), world.claimed()
    world.advance(LEASE_S + 1)
    take_over = world.app.lifecycle.take_over

    def fail_for_one(conn, lease, **more):  # type: ignore[no-untyped-def]
        if lease.job_id == broken.job_id:
            raise RuntimeError("a defect")
        return take_over(conn, lease, **more)

    monkeypatch.setattr(world.app.lifecycle, "take_over", fail_for_one)
    world.upkeep()

    assert [e.delivery_no for e in world.deliveries(other.job_id)] == [1, 2]
    assert world.count("upkeep.failed") == 1


def test_open_transaction_of_a_creator_holds_up_no_other_job(world: World) -> None:
    """Where changes by key walked over the pending events, they would wait for this one's end (OB-6)."""
    for _ in range(3):
        world.app.jobs.create_jobs([world.request() for _ in range(100)])
    world.dispatch()
    world.work(concurrency=200)
    with world.engine.begin() as conn:
        statement = {"mariadb": "ANALYZE TABLE outbox_event", "postgresql": "ANALYZE outbox_event"}
        conn.exec_driver_sql(statement[conn.dialect.name])
    jobs = [world.create() for _ in range(64)]

    with world.engine.connect() as conn:
        world.create(session=conn)
        world.dispatch()
        world.work(concurrency=64)
        world.upkeep()

        assert {world.job(job.id).lifecycle_status for job in jobs} == {"succeeded"}
        assert not world.count("finish.batch_split"), "the results had to wait for the open transaction"
        conn.rollback()
