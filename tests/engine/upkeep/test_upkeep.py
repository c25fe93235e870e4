"""Upkeep heals what crashed processes leave behind, and leaves everything else alone."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa

from engine.errors import SnapshotGoneError
from engine.lifecycle.lease import Lease
from engine.lifecycle.values import Failure
from engine.usage.repository import Intent
from engine.worker.assembly import make_upkeep
from registry.definition import JobDefinition
from registry.job import StartReason, WaitKind
from registry.queues import ADR_114, DEFAULT_QUEUES
from tests.support.crowd import at_once
from tests.support.faults import after_statement
from tests.support.world import LEASE_S, World

MakeWorld = Callable[..., World]
DAY_S = 86_400


def crashed(world: World, **wanted: Any) -> UUID:
    """A delivered job whose worker has just died; its lease has a minute to go."""
    job = world.create(**wanted)
    world.dispatch()
    [delivery] = world.transport.claim("ai-background", 1, "worker-x", 1)
    assert delivery.ticket.job_id == job.id
    world.claim(job.id, worker="worker-x")
    return job.id


def park(world: World, lease: Lease, kind: WaitKind, delay_ms: int = 0) -> None:
    number = world.run(
        lambda conn: world.app.lifecycle.park(
            conn, lease, kind, delay_ms=delay_ms, reason=StartReason.RETRY, look_after_ms=60_000
        )
    )
    assert number == 2


class TestTakeOver:
    """A lost worker's job goes on elsewhere."""

    def test_a_lost_workers_job_is_taken_over_and_succeeds(self, world: World) -> None:
        """WL-5, promise 3. It stays running, under a new epoch, and its next start is counted."""
        job_id = crashed(world)

        world.advance(LEASE_S + 0.1)
        world.upkeep()

        row = world.row(job_id)
        assert (row["lifecycle_status"], row["epoch"], row["lock_until"]) == ("running", 2, None)
        assert [e.delivery_no for e in world.deliveries(job_id)] == [1, 2]
        world.dispatch()
        world.work()
        assert world.job(job_id).lifecycle_status == "succeeded"
        assert [(c.epoch, c.attempt_no, c.start_reason, c.error_code) for c in world.claims(job_id)] == [
            (1, 1, "first", "LEASE_LOST"),
            (3, 2, "crash", None),
        ]

    def test_nothing_is_taken_over_before_its_lease_has_ended(self, world: World) -> None:
        """WL-4. However long it runs: only the lease counts, and a heartbeat renews it."""
        job_id = crashed(world)
        lease = Lease(job_id, 1)
        for _ in range(10):
            world.advance(LEASE_S - 1)
            before = world.row(job_id)
            world.upkeep()
            assert world.row(job_id) == before
            world.run(lambda conn: world.app.lifecycle.heartbeat(conn, [lease], lease_ms=60_000))

        assert len(world.claims(job_id)) == 1

    @pytest.mark.parametrize("queue", DEFAULT_QUEUES, ids=lambda queue: queue.name)
    def test_recovery_takes_one_lease_and_one_round_with_the_built_in_figures(
        self, world: World, queue: Any
    ) -> None:
        """Promise 3: no further grace in SQL."""
        job_id = world.create(job_type="synthetic").id
        world.claim(job_id, lease_ms=queue.lease_ms)

        world.advance(queue.lease_ms / 1000 - 0.5)
        world.upkeep()
        assert world.row(job_id)["lock_until"] is not None
        world.advance(0.6)
        world.upkeep()
        assert world.row(job_id)["lock_until"] is None

    def test_the_profile_of_adr_114_holds(self, make_world: MakeWorld) -> None:
        """Design 4: lease 300 s, heartbeat 30 s, upkeep 60 s; one setting away."""
        queues = [queue.with_lease(ADR_114) for queue in DEFAULT_QUEUES]
        world = make_world(queues=queues, upkeep={"interval_ms": 60_000})
        job_id = world.create().id
        world.claim(job_id, lease_ms=world.app.registry.queue("ai-background").lease_ms)

        world.advance(299)
        world.upkeep()
        assert world.row(job_id)["epoch"] == 1
        world.advance(2)
        world.upkeep()
        assert world.row(job_id)["epoch"] == 2
        world.settle()
        assert world.job(job_id).lifecycle_status == "succeeded"

    def test_a_redelivery_keeps_the_jobs_place(self, world: World) -> None:
        """Who has waited longest does not go to the end of the queue because a worker died."""
        old = crashed(world)
        world.advance(LEASE_S + 1)
        young = world.create()
        world.upkeep()
        world.dispatch()

        claimed = world.transport.claim("ai-background", 2, "worker-y", 1)
        assert [one.ticket.job_id for one in claimed] == [old, young.id]

    def test_a_job_that_kills_its_worker_every_time_ends_after_its_attempts(self, world: World) -> None:
        """It costs its own attempts and nobody else's."""
        killer, other = world.create(payload={"value": 1}), world.create()
        attempts = 0
        while not world.job(killer.id).is_final:
            world.dispatch()
            for delivery in world.transport.claim("ai-background", 9, "worker-x", 1):
                if delivery.ticket.job_id == killer.id:
                    world.try_claim(killer.id, delivery_no=delivery.ticket.delivery_no)
                    attempts += 1
            world.advance(LEASE_S + 1)
            world.upkeep()
            assert attempts < 10
        world.settle()

        job = world.job(killer.id)
        assert attempts == job.attempt_count == job.max_attempts == 3
        assert (job.lifecycle_status, job.outcome, job.error_code) == ("failed", "error", "LEASE_LOST")
        assert job.public_error_message
        assert [e.event_type for e in world.endings(killer.id)] == ["ai.job.failed"]
        assert world.job(other.id).lifecycle_status == "succeeded"

    def test_a_lost_call_that_must_not_be_repeated_ends_indeterminate(self, world: World) -> None:
        """X16. Honest: whether it happened is not known."""
        world.app.register(
            JobDefinition.simple(
                "careful", input=_input(world), output=_output(world), handler=lambda ctx: None,
                max_retries=0, on_unknown_outcome="fail",
            )
        )  # fmt: skip
        lease = world.claimed(job_type="careful")
        world.run(lambda conn: world.app.usage.record(conn, [_intent(lease)]))

        world.advance(LEASE_S + 1)
        world.upkeep()

        job = world.job(lease.job_id)
        assert (job.lifecycle_status, job.outcome, job.error_code) == ("failed", "indeterminate", "LEASE_LOST")

    def test_a_lost_worker_that_was_asked_to_cancel_leaves_a_cancelled_job(self, world: World) -> None:
        """X33: cancelled, not failed, also when no attempt is left."""
        job_id = crashed(world)
        world.change("ai_job", {"id": job_id}, attempt_count=3)
        world.app.jobs.request_cancel(job_id)

        world.advance(LEASE_S + 1)
        world.upkeep()

        job = world.job(job_id)
        assert (job.lifecycle_status, job.outcome, job.error_code) == ("cancelled", "cancelled", None)
        assert [e.event_type for e in world.endings(job_id)] == ["ai.job.cancelled"]

    def test_many_upkeeps_take_a_job_over_once(self, world: World, make_world: MakeWorld) -> None:
        """WL-6. Any process may carry it; the conditional write decides."""
        job_ids = [crashed(world) for _ in range(5)]
        world.advance(LEASE_S + 1)
        others = [make_world() for _ in range(4)]
        for other in others:
            other.app.clock.advance((LEASE_S + 1) * 1000)

        answers = at_once([make_upkeep(one.app).run_once for one in (world, *others)])

        assert [a for a in answers if isinstance(a, BaseException)] == []
        for job_id in job_ids:
            assert [e.delivery_no for e in world.deliveries(job_id)] == [1, 2]
            assert world.row(job_id)["epoch"] == 2

    @pytest.mark.parametrize("attempts", [1, 3])
    @pytest.mark.parametrize("meanwhile", ["finish", "renew", "claim"])
    def test_a_job_that_moves_between_the_read_and_the_write_is_left_alone(
        self, world: World, make_world: MakeWorld, meanwhile: str, attempts: int
    ) -> None:
        """WL-3. A succeeded job never turns back, a renewed one keeps its worker."""
        job_id = crashed(world)
        world.change("ai_job", {"id": job_id}, attempt_count=attempts)
        world.advance(LEASE_S + 1)
        other = make_world()
        other.app.clock.advance((LEASE_S + 1) * 1000)
        it, lease = other.app.lifecycle, Lease(job_id, 1)
        acts: dict[str, Callable[[], object]] = {
            "finish": lambda: other.run(lambda conn: it.mark_succeeded(conn, [lease])),
            "renew": lambda: other.run(lambda conn: it.heartbeat(conn, [lease], lease_ms=60_000)),
            "claim": lambda: other.try_claim(job_id, worker="worker-b"),
        }
        seen: list[dict[str, Any]] = []

        def act() -> None:
            acts[meanwhile]()
            seen.append(other.row(job_id))

        with after_statement(world.engine, "upkeep_at <=", act):
            world.upkeep()

        if (meanwhile, attempts) == ("claim", 3):
            # Refused for want of attempts: nothing has moved, so upkeep ends it.
            assert world.job(job_id).error_code == "LEASE_LOST"
        else:
            assert [world.row(job_id)] == seen

    @pytest.mark.databases("mariadb", "postgresql")
    def test_one_job_that_cannot_be_healed_does_not_keep_others_from_it(
        self, world: World, database_kind: str
    ) -> None:
        """A row held by a process that stands still in its transaction costs its own job only."""
        held, free = crashed(world), crashed(world)
        world.advance(LEASE_S + 1)
        table = world.table("ai_job")
        with world.engine.connect() as conn:
            conn.execute(sa.select(table.c.id).where(table.c.id == held).with_for_update())
            world.upkeep()
            conn.rollback()

        assert world.row(free)["epoch"] == 2
        world.upkeep()
        assert world.row(held)["epoch"] == 2


class TestLostDeliveries:
    """OB-9: what neither the outbox nor Redis will deliver by itself is delivered again."""

    @pytest.fixture(params=["fakeredis", "redis"])
    def carried(self, request: pytest.FixtureRequest, make_world: MakeWorld) -> World:
        if request.param == "redis":
            return make_world(request.getfixturevalue("redis_url"))
        return make_world(f"fakeredis://lost-{id(request)}")

    def test_jobs_of_a_flushed_redis_are_delivered_again_and_run_once(self, carried: World) -> None:
        """OB-9, promise 2. Within one redelivery interval, without anybody acting."""
        world = carried
        jobs = [world.create(payload={"value": n}) for n in range(20)]
        world.dispatch()
        _flush(world)
        assert world.depth() == 0

        world.upkeep()
        world.dispatch()
        assert world.depth() == 0
        world.advance(61)
        world.upkeep()
        world.dispatch()
        assert world.depth() == 20
        world.work()

        assert [world.output(job.id) for job in jobs] == [{"value": n} for n in range(20)]
        for job in jobs:
            assert len(world.claims(job.id)) == 1
            assert [e.delivery_no for e in world.deliveries(job.id)] == [1, 2]

    def test_a_ticket_that_lives_is_not_doubled(self, world: World) -> None:
        """A long queue is not a lost ticket."""
        jobs = [world.create() for _ in range(3)]
        world.dispatch()
        for _ in range(5):
            world.app.clock.advance(61_000)
            world.upkeep()
        world.dispatch()

        assert all(len(world.deliveries(job.id)) == 1 for job in jobs)
        assert world.depth() == 3

    @pytest.mark.parametrize("status", ["pending", "processing"])
    def test_a_delivery_that_is_still_in_the_outbox_is_not_doubled(self, world: World, status: str) -> None:
        """Waiting, or in the hands of a dispatcher that puts it at this moment."""
        job = world.create()
        world.dispatch()
        world.change("outbox_event", {"aggregate_id": job.id}, status=status, published_at=None)
        _forget_tickets(world)
        world.app.clock.advance(61_000)

        world.upkeep()

        assert len(world.deliveries(job.id)) == 1

    @pytest.mark.parametrize("way_back", ["park", "release", "take_over"])
    def test_a_lost_way_back_is_healed_too(self, world: World, way_back: str) -> None:
        """Every non-final job that nobody holds and no ticket stands for."""
        job_id = crashed(world)
        lease = Lease(job_id, 1)
        if way_back == "park":
            park(world, lease, WaitKind.RETRY)
        elif way_back == "release":
            assert world.run(lambda conn: world.app.lifecycle.release(conn, lease, look_after_ms=60_000))
        else:
            world.advance(LEASE_S + 1)
            assert world.run(lambda conn: world.app.lifecycle.take_over(conn, lease, look_after_ms=60_000))
        world.transport.finish_many("worker-x", [])
        _forget_tickets(world)

        world.advance(62)
        world.upkeep()
        world.dispatch()
        world.work()

        assert world.job(job_id).lifecycle_status == "succeeded"

    def test_a_delayed_job_is_started_once_when_its_time_has_come(self, world: World) -> None:
        """WL-4. Not by age: a job delayed by a day waits a day."""
        now = world.app.uow.read(world.app.clock.read)
        job = world.create(available_at=now + timedelta(days=1))
        for _ in range(4):
            world.advance(DAY_S / 5)
            world.upkeep()
            world.dispatch()
            assert world.depth() == 0
        world.advance(DAY_S / 5 + 1)
        world.upkeep()
        world.dispatch()
        world.work()

        assert len(world.deliveries(job.id)) == len(world.claims(job.id)) == 1
        assert world.job(job.id).lifecycle_status == "succeeded"

    def test_a_job_that_waits_for_a_person_is_left_waiting(self, world: World) -> None:
        lease = world.claimed()
        park(world, lease, WaitKind.APPROVAL)

        for _ in range(3):
            world.advance(10 * DAY_S)
            world.upkeep()

        assert world.row(lease.job_id)["wait_kind"] == "approval"
        assert len(world.deliveries(lease.job_id)) == 1

    def test_a_dead_event_blocks_its_job_until_a_person_decides(self, world: World) -> None:
        """OB-3. Redelivering would only kill the next event."""
        job = world.create()
        world.dispatch()
        world.change("outbox_event", {"aggregate_id": job.id}, status="dead")
        _forget_tickets(world)

        world.advance(120)
        world.upkeep()

        assert [e.status for e in world.deliveries(job.id)] == ["dead"]

    def test_a_dead_event_of_an_older_delivery_keeps_no_lost_ticket_from_coming_again(self, world: World) -> None:
        """Promise 2. Only the present delivery tells whether one is on its way: nobody has to act."""
        job_id = crashed(world)
        world.advance(LEASE_S + 1)
        world.upkeep()
        world.dispatch()
        first, _ = world.deliveries(job_id)
        world.change("outbox_event", {"id": first.id}, status="dead", last_error="TICKET_REFUSED")

        _forget_tickets(world)
        world.advance(61)
        make_upkeep(world.app).heal_jobs()

        assert [e.delivery_no for e in world.deliveries(job_id)] == [1, 2, 3]
        world.settle()

    @pytest.mark.parametrize("end", ["ended", "came back"])
    def test_a_dead_delivery_that_nobody_waits_for_needs_no_person(self, world: World, end: str) -> None:
        """OB-3. A dispatcher that died after its put left a ticket; the refused repetition is nobody's concern."""
        job = world.create()
        world.dispatch()
        lease = world.claim(job.id)
        if end == "ended":
            world.run(lambda conn: world.app.lifecycle.mark_failed(conn, lease, Failure("PROVIDER_ERROR")))
        else:
            park(world, lease, WaitKind.RETRY)
        other = world.create()
        for one in (job, other):
            delivery = world.deliveries(one.id)[0]
            world.change("outbox_event", {"id": delivery.id}, status="dead")

        world.upkeep()

        assert world.deliveries(job.id)[0].status == "obsolete"
        assert [e.status for e in world.deliveries(other.id)] == ["dead"]
        assert world.count("outbox.retired") == 1

    def test_while_redis_is_away_leases_are_healed_all_the_same(self, make_world: MakeWorld) -> None:
        """Promise 3 does not need Redis: a pile of unclaimed deliveries stands in nobody's way."""
        world = make_world("redis://127.0.0.1:1/0")
        idle = [made.job.id for made in world.app.jobs.create_jobs([world.request() for _ in range(230)])]
        world.run(lambda conn: world.app.lifecycle.stamp_delivered(conn, idle, look_after_ms=1))
        world.change("outbox_event", {"status": "pending"}, status="published")
        lease = world.claimed()
        world.app.clock.advance((LEASE_S + 60) * 1000)
        upkeep = make_upkeep(world.app)

        rounds = 0
        while upkeep.run_once():
            rounds += 1
            assert rounds < 10, "upkeep would run without a pause"

        assert world.row(lease.job_id)["epoch"] == 2
        assert all(len(world.deliveries(job_id)) == 1 for job_id in idle[:3])


class TestOutboxClaims:
    """OB-7: a dispatcher that died holds its events for the claim time, not longer."""

    def test_claims_of_a_dead_dispatcher_end(self, world: World) -> None:
        job = world.create()
        claim = world.app.outbox.claim
        world.run(lambda conn: claim(conn, "ai-background", ["ai.job.enqueue"], limit=9, owner="dead"))

        world.advance(59)
        world.upkeep()
        assert [e.status for e in world.deliveries(job.id)] == ["processing"]
        world.advance(2)
        world.upkeep()
        assert [e.status for e in world.deliveries(job.id)] == ["pending"]

        world.settle()
        assert world.job(job.id).lifecycle_status == "succeeded"
        assert len(world.claims(job.id)) == 1


class TestRetention:
    """OB-11, X86: what has passed its time goes, in small batches, and nothing else."""

    def test_settled_events_go_after_their_days(self, world: World) -> None:
        done, cancelled, dead, waiting = (world.create() for _ in range(4))
        world.app.jobs.request_cancel(cancelled.id)
        for job, status in ((done, "published"), (dead, "dead"), (waiting, "pending")):
            world.change("outbox_event", {"aggregate_id": job.id}, status=status)

        world.advance(7 * DAY_S - 60)
        make_upkeep(world.app).clean_up()
        assert len(world.rows("outbox_event")) == 5
        world.advance(120)
        make_upkeep(world.app).clean_up()

        left = {row["aggregate_id"]: row["status"] for row in world.rows("outbox_event")}
        assert left == {dead.id: "dead", waiting.id: "pending"}

    def test_a_discarded_event_stays_longer(self, world: World) -> None:
        job = world.create()
        world.change("outbox_event", {"aggregate_id": job.id}, status="discarded")

        world.advance(29 * DAY_S)
        make_upkeep(world.app).clean_up()
        assert len(world.rows("outbox_event")) == 1
        world.advance(2 * DAY_S)
        make_upkeep(world.app).clean_up()
        assert world.rows("outbox_event") == []

    def test_a_dead_event_of_a_subscriber_goes_after_its_days_and_a_dead_delivery_does_not(self, world: World) -> None:
        """Design 8. What a job waits for stays, however old: it is the trace of why the job does not start."""
        world.app.on_end("audit")(lambda event: None)
        ended, waiting = world.create(), world.create()
        world.app.jobs.request_cancel(ended.id)
        [told] = world.endings(ended.id)
        world.change("outbox_event", {"id": told.id}, status="dead")
        world.change("outbox_event", {"aggregate_id": waiting.id}, status="dead")

        world.advance(29 * DAY_S)
        make_upkeep(world.app).clean_up()
        assert [e.status for e in world.endings(ended.id)] == ["dead"]
        world.advance(2 * DAY_S)
        make_upkeep(world.app).clean_up()

        assert world.endings(ended.id) == []
        world.advance(100 * DAY_S)
        world.upkeep()
        assert [e.status for e in world.deliveries(waiting.id)] == ["dead"]

    def test_inputs_go_only_after_the_end_of_their_jobs(self, world: World) -> None:
        """X86. A waiting job needs its input however late it is."""
        ended, waiting = world.create(), world.create()
        lease = world.claim(ended.id)
        world.run(lambda conn: world.app.lifecycle.mark_failed(conn, lease, Failure("PROVIDER_ERROR")))

        world.advance(29 * DAY_S)
        make_upkeep(world.app).clean_up()
        assert all(row["content"] for row in world.rows("ai_job_snapshot"))
        world.advance(2 * DAY_S)
        make_upkeep(world.app).clean_up()

        contents = {row["job_id"]: row["content"] for row in world.rows("ai_job_snapshot")}
        assert contents[ended.id] is None
        assert contents[waiting.id] is not None
        assert all(row["content_hash"] for row in world.rows("ai_job_snapshot"))

    def test_the_days_of_an_input_count_from_the_end_of_its_job(self, world: World) -> None:
        """A job that waited for weeks can be retried as long after its failure as any other."""
        job = world.create(available_at=world.app.uow.read(world.app.clock.read) + timedelta(days=40))
        world.advance(40 * DAY_S + 1)
        lease = world.claim(job.id)
        world.run(lambda conn: world.app.lifecycle.mark_failed(conn, lease, Failure("PROVIDER_ERROR")))

        world.advance(29 * DAY_S)
        make_upkeep(world.app).clean_up()
        assert world.app.jobs.retry_as_new(job.id).created
        world.advance(2 * DAY_S)
        make_upkeep(world.app).clean_up()

        with pytest.raises(SnapshotGoneError):
            world.app.jobs.retry_as_new(job.id)

    def test_outputs_go_after_their_days_and_leave_their_hash(self, world: World) -> None:
        job = world.create()
        world.settle()

        world.advance(89 * DAY_S)
        make_upkeep(world.app).clean_up()
        assert world.output(job.id) is not None
        world.advance(2 * DAY_S)
        make_upkeep(world.app).clean_up()

        assert world.output(job.id) is None
        assert world.job(job.id).output_hash is not None


def _flush(world: World) -> None:
    world.transport._broker._commands.flushall()  # type: ignore[attr-defined]


def _forget_tickets(world: World) -> None:
    """What a Redis that lost everything knows: nothing."""
    world.transport._entries.clear()  # type: ignore[attr-defined]
    world.transport._queues.clear()  # type: ignore[attr-defined]


def _input(world: World) -> Any:
    return world.app.registry.get("synthetic").input.model


def _output(world: World) -> Any:
    return world.app.registry.get("synthetic").output.model


def _intent(lease: Lease) -> Intent:
    return Intent(
        lease=lease, call_no=1, attempt_no=1, operation_id="op", credential_mode="platform_key",
        provider="scripted", model=None,
    )  # fmt: skip
