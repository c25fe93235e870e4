"""From a delivery to a claim: what may run runs, everything else is a quiet no-op or comes again."""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

import pytest
import sqlalchemy as sa

from engine.lifecycle.values import Failure
from outbox.base import later
from outbox.transports.base import Ticket
from tests.engine.pipeline.samples import Answer, Ask
from tests.support.faults import statements
from tests.support.wait import eventually
from tests.support.world import LEASE_S, QUEUE, World


def ticket(job_id: object, *, job_type: str = "synthetic", delivery_no: int = 1) -> Ticket:
    return Ticket(
        job_id=job_id,  # type: ignore[arg-type]
        job_type=job_type, queue_name=QUEUE, delivery_no=delivery_no, deliver_score=1, created_at_ms=1,
    )  # fmt: skip


@pytest.mark.databases("mariadb", "postgresql")
def test_a_row_that_somebody_holds_for_a_moment_is_claimed_right_after(
    world: World, database_kind: str
) -> None:
    """The dispatcher marks a delivery that a fast worker has already: no deferral may cost half a minute."""
    job = world.create()
    with world.engine.connect() as holder, world.working():
        holder.execute(sa.select(world.table("ai_job").c.id).with_for_update())
        world.transport.put_many([ticket(job.id)])
        eventually(lambda: world.count("delivery.busy"))
        holder.rollback()
        eventually(lambda: world.job(job.id).is_final, timeout=10)

    assert world.job(job.id).lifecycle_status == "succeeded"


@pytest.mark.databases("mariadb")
@pytest.mark.parametrize(("jobs", "looks_first"), [(1, False), (2, True)])
def test_a_lone_new_job_is_claimed_and_read_in_one_trip(
    world: World, database_kind: str, monkeypatch: pytest.MonkeyPatch, jobs: int, looks_first: bool
) -> None:
    made = [world.create() for _ in range(jobs)]
    world.dispatch()
    sent: list[str] = []
    really = later._run
    monkeypatch.setattr(
        later, "_run", lambda conn, kept: (sent.append("; ".join(each.text for each in kept)), really(conn, kept))
    )
    with statements(world.engine) as seen:
        world.work()

    [claim] = [text for text in sent if "INTO ai_job_claim" in text]
    assert claim.endswith("COMMIT")
    assert ("SKIP LOCKED" in claim) is not looks_first
    assert any("SKIP LOCKED" in text and "job_type" in text and text not in claim for text in seen) is looks_first
    assert [world.job(job.id).lifecycle_status for job in made] == ["succeeded"] * jobs


@pytest.mark.parametrize("state", ["succeeded", "failed", "cancelled", "running", "unknown"])
def test_a_delivery_with_nothing_to_do_ends_quietly(world: World, state: str) -> None:
    """WL-9, OB-7. Cancelled, finished, running elsewhere, never heard of: no error, no change, no orphan."""
    it = world.app.lifecycle
    job_id = uuid4() if state == "unknown" else world.create().id
    if state not in ("unknown", "cancelled"):
        lease = world.claim(job_id, worker="elsewhere")
    if state == "succeeded":
        world.run(lambda conn: it.mark_succeeded(conn, [lease]))
    elif state == "failed":
        world.run(lambda conn: it.mark_failed(conn, lease, Failure("PROVIDER_ERROR")))
    elif state == "cancelled":
        world.app.jobs.request_cancel(job_id)
    before = world.rows("ai_job")

    world.transport.put_many([ticket(job_id)])
    world.work()

    assert world.rows("ai_job") == before
    assert len(world.rows("ai_job_claim")) == (1 if state in ("succeeded", "failed", "running") else 0)
    alive = world.transport.alive([(QUEUE, "synthetic", job_id)])
    assert alive == [state in ("running", "unknown")]


def test_an_unknown_job_is_looked_for_three_times_and_dropped(world: World) -> None:
    """WL-9. Its row may not be visible yet; after a short grace it is an orphan."""
    job_id = uuid4()
    world.transport.put_many([ticket(job_id)])
    for _ in range(4):
        world.work()
        world.advance(6)

    assert world.count("delivery.missing") == 3
    assert world.transport.alive([(QUEUE, "synthetic", job_id)]) == [False]


def test_a_delivery_of_a_running_job_takes_over_when_its_worker_is_lost(world: World) -> None:
    """WL-5, WL-6. The ticket waits with the lease; no upkeep and no dispatcher is needed."""
    job = world.create()
    world.dispatch()
    world.claim(job.id, worker="lost")
    world.work()
    assert world.job(job.id).lifecycle_status == "running"

    world.advance(LEASE_S + 1)
    world.work()

    assert world.job(job.id).lifecycle_status == "succeeded"
    assert [c.start_reason for c in world.claims(job.id)] == ["first", "crash"]


def test_an_old_delivery_that_arrives_late_is_a_no_op(world: World) -> None:
    """OB-7. Doubled, late, out of order: the newest number counts."""
    job = world.create()
    world.dispatch()
    [old] = world.transport.claim(QUEUE, 1, "slow", 1)
    world.claim(job.id, worker="slow")
    world.advance(LEASE_S + 1)
    world.upkeep()
    assert world.try_claim(job.id, delivery_no=old.ticket.delivery_no) == "stale"

    world.settle()
    world.transport.put_many([old.ticket])
    world.work()

    assert len(world.claims(job.id)) == 2
    assert world.depth() == 0


def test_a_type_of_tomorrow_is_left_to_those_who_know_it(
    world: World, make_world: Callable[..., World]
) -> None:
    """WL-16. The old worker neither fails nor claims it, uses no attempt, and works on other jobs."""
    new = make_world(world.transport)
    new.app.job("tomorrow", input=Ask, output=Answer)(lambda ctx: Answer(value="new"))
    job, known = new.create(job_type="tomorrow", payload={}), new.create()
    new.dispatch()
    named: list[tuple[str, str | None]] = []
    world.app.telemetry.listen(lambda fact, ids: named.append((fact, ids.get("job_id"))))

    world.work()
    assert world.count("job.type_unknown") == 1
    assert {("job.type_unknown", str(job.id)), ("job.started", str(known.id))} <= set(named)
    assert new.row(job.id)["epoch"] == 0
    assert new.job(known.id).lifecycle_status == "succeeded"

    new.advance(6)
    new.work()
    assert new.job(job.id).lifecycle_status == "succeeded"
    assert new.job(job.id).attempt_count == 1


def test_a_forged_ticket_costs_its_own_job_nothing_and_others_nothing(
    world: World, make_world: Callable[..., World]
) -> None:
    """Ground rule 1: a ticket is a hint. One that names a known type for a job of an unknown one is not obeyed."""
    new = make_world(world.transport)
    new.app.job("tomorrow", input=Ask, output=Answer)(lambda ctx: Answer(value="new"))
    strange, good = new.create(job_type="tomorrow", payload={}), new.create()
    world.transport.put_many([ticket(strange.id), ticket(good.id)])

    world.work()

    assert new.job(good.id).lifecycle_status == "succeeded"
    assert not new.job(strange.id).is_final
    new.settle()
    assert new.job(strange.id).lifecycle_status == "succeeded"


class TestDoomedJobs:
    """X03: a job that can never start ends; it never hangs and never starts."""

    def test_a_job_without_its_input_ends_expired(self, world: World) -> None:
        job = world.create()
        world.change("ai_job_snapshot", {"job_id": job.id}, content=None)
        world.settle()

        job = world.job(job.id)
        assert (job.lifecycle_status, job.outcome, job.error_code) == ("failed", "expired", "SNAPSHOT_EXPIRED")
        assert job.attempt_count == 1

    @pytest.mark.parametrize("content", [b"no json", b'{"value": NaN}', b'{"sleep_ms": "long"}', b"[]", b"\xff"])
    def test_a_job_whose_input_cannot_be_read_ends_at_once(self, world: World, content: bytes) -> None:
        """The model may have changed since; it is not tried again."""
        job = world.create()
        world.change("ai_job_snapshot", {"job_id": job.id}, content=content)
        world.settle()

        job = world.job(job.id)
        assert (job.lifecycle_status, job.error_code, job.attempt_count) == ("failed", "SNAPSHOT_UNREADABLE", 1)
        assert "long" not in str(job.internal_error_message)

    def test_a_job_with_no_snapshot_row_ends_too(self, world: World) -> None:
        job = world.create()
        table = world.table("ai_job_snapshot")
        world.run(lambda conn: conn.execute(sa.delete(table).where(table.c.job_id == job.id)))
        world.settle()

        assert world.job(job.id).error_code == "SNAPSHOT_UNREADABLE"
