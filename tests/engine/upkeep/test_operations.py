"""Operators and the outbox: what is sent again runs once, what is given up ends its job in the same transaction."""

from __future__ import annotations

import threading
from typing import Any
from uuid import UUID, uuid4

import pytest

from engine.lifecycle.audit import AuditRepository
from engine.upkeep.errors import OutboxEventNotFound, OutboxEventState
from engine.upkeep.operations import By, Effect, Operation, OutboxOperations
from outbox.events import EventType
from outbox.queries import EventView
from outbox.states import EventStatus
from registry.job import JobView, LifecycleStatus, Outcome
from tests.support.world import World

ME = By(actor="alice", edge="cli", request_id="r-1")


def operations_of(world: World) -> OutboxOperations:
    app = world.app
    return OutboxOperations(
        uow=app.uow, lifecycle=app.lifecycle, outbox=app.outbox, endings=app.endings,
        audit=AuditRepository(app.clock),
    )  # fmt: skip


@pytest.fixture
def operations(world: World) -> OutboxOperations:
    return operations_of(world)


def kill_delivery(world: World, job_id: UUID) -> EventView:
    """The job's delivery as it is after its last refusal."""
    [event] = world.deliveries(job_id)
    world.change("outbox_event", {"id": event.id}, status="dead", attempt_count=3, last_error="TICKET_REFUSED")
    return world.deliveries(job_id)[0]


def dead(world: World, **wanted: Any) -> tuple[JobView, EventView]:
    job = world.create(**wanted)
    return job, kill_delivery(world, job.id)


# -- redeliver -----------------------------------------------------------------------------------


def test_a_dead_event_that_is_redelivered_runs_its_job(world: World, operations: OutboxOperations) -> None:
    job, event = dead(world)
    world.dispatch()
    assert world.depth() == 0

    done = operations.redeliver(event.id, by=ME)

    assert (done.effect, done.delivery_no) == (Effect.REVIVED, 1)
    assert world.deliveries(job.id)[0].attempt_count == 0
    world.settle()
    assert world.job(job.id).lifecycle_status is LifecycleStatus.SUCCEEDED


def test_a_published_delivery_whose_ticket_is_lost_is_delivered_again(
    world: World, operations: OutboxOperations
) -> None:
    job = world.create()
    world.dispatch()
    world.transport.cancel(job.queue_name, job.job_type, job.id)
    assert world.depth() == 0

    done = operations.redeliver(world.deliveries(job.id)[0].id, by=ME)

    assert (done.effect, done.delivery_no) == (Effect.REDELIVERED, 2)
    world.settle()
    assert world.job(job.id).lifecycle_status is LifecycleStatus.SUCCEEDED


def test_redelivering_beside_a_ticket_that_lives_runs_the_job_once(
    world: World, operations: OutboxOperations
) -> None:
    job = world.create()
    world.dispatch()

    operations.redeliver(world.deliveries(job.id)[0].id, by=ME)
    world.settle()

    assert world.job(job.id).attempt_count == 1
    assert len(world.claims(job.id)) == 1


def test_a_redelivery_keeps_the_place_in_the_queue(world: World, operations: OutboxOperations) -> None:
    job = world.create()
    world.dispatch()
    world.advance(5)
    later = world.create()

    operations.redeliver(world.deliveries(job.id)[0].id, by=ME)

    again = world.deliveries(job.id)[-1]
    assert again.delivery_no == 2
    assert again.deliver_score < world.deliveries(later.id)[0].deliver_score


def test_an_event_on_its_way_is_not_redelivered(world: World, operations: OutboxOperations) -> None:
    job = world.create()
    [event] = world.deliveries(job.id)

    with pytest.raises(OutboxEventState, match="pending"):
        operations.redeliver(event.id, by=ME)


def test_the_delivery_of_a_job_in_hand_is_not_redelivered(world: World, operations: OutboxOperations) -> None:
    job = world.create()
    world.dispatch()
    world.claim(job.id)

    with pytest.raises(OutboxEventState, match="a worker holds its job"):
        operations.redeliver(world.deliveries(job.id)[0].id, by=ME)


def test_the_delivery_of_an_ended_job_is_not_redelivered(world: World, operations: OutboxOperations) -> None:
    job = world.create()
    world.settle()

    with pytest.raises(OutboxEventState, match="has ended"):
        operations.redeliver(world.deliveries(job.id)[0].id, by=ME)


def test_an_old_delivery_is_not_redelivered(world: World, operations: OutboxOperations) -> None:
    job = world.create()
    world.dispatch()
    [first] = world.deliveries(job.id)
    operations.redeliver(first.id, by=ME)

    with pytest.raises(OutboxEventState, match="delivery 1 is not the present one, 2 is"):
        operations.redeliver(first.id, by=ME)


def test_the_dead_event_of_a_subscriber_is_redelivered(world: World, operations: OutboxOperations) -> None:
    world.app.on_end("billing")(lambda event: None)
    job = world.create()
    world.settle()
    [ending] = world.endings(job.id)
    world.change("outbox_event", {"id": ending.id}, status="dead")

    done = operations.redeliver(ending.id, by=ME)

    assert done.effect is Effect.REVIVED
    assert world.endings(job.id)[0].status == EventStatus.PENDING


def test_two_operators_redeliver_one_dead_event_once(world: World, operations: OutboxOperations) -> None:
    job, event = dead(world)
    answers: list[Operation | OutboxEventState] = []

    def act() -> None:
        try:
            answers.append(operations.redeliver(event.id, by=ME))
        except OutboxEventState as error:
            answers.append(error)

    threads = [threading.Thread(target=act) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sum(isinstance(answer, Operation) for answer in answers) == 1
    assert len(answers) == 4
    assert [e.status for e in world.deliveries(job.id)] == [EventStatus.PENDING]


# -- discard -------------------------------------------------------------------------------------


def test_discarding_a_dead_delivery_fails_its_job_in_the_same_transaction(
    world: World, operations: OutboxOperations
) -> None:
    job, event = dead(world)

    done = operations.discard(event.id, by=ME, reason="the queue was removed")

    assert done.effect is Effect.JOB_FAILED
    after = world.job(job.id)
    assert (after.lifecycle_status, after.outcome) == (LifecycleStatus.FAILED, Outcome.ERROR)
    assert after.error_code == "DISPATCH_DISCARDED"
    assert "the queue was removed" in (after.internal_error_message or "")
    assert "removed" not in (after.public_error_message or "")
    assert after.attempt_count == 0
    [discarded] = world.deliveries(job.id)
    assert (discarded.status, discarded.last_error) == (EventStatus.DISCARDED, "the queue was removed")
    assert [e.event_type for e in world.endings(job.id)] == [EventType.FAILED]


def test_a_discarded_job_is_not_started_by_a_ticket_that_comes_late(
    world: World, operations: OutboxOperations
) -> None:
    job = world.create()
    world.dispatch()
    event = kill_delivery(world, job.id)

    operations.discard(event.id, by=ME, reason="x")
    world.work()

    assert world.job(job.id).error_code == "DISPATCH_DISCARDED"
    assert world.provider.requests == []


@pytest.mark.parametrize("status", ["pending", "processing", "published", "obsolete", "discarded"])
def test_only_a_dead_event_can_be_discarded(world: World, operations: OutboxOperations, status: str) -> None:
    job = world.create()
    [event] = world.deliveries(job.id)
    world.change("outbox_event", {"id": event.id}, status=status)

    with pytest.raises(OutboxEventState, match="only a dead one"):
        operations.discard(event.id, by=ME, reason="x")

    assert world.job(job.id).lifecycle_status is LifecycleStatus.QUEUED


def test_discarding_an_old_delivery_leaves_the_job_alone(world: World, operations: OutboxOperations) -> None:
    job, event = dead(world)
    world.change("ai_job", {"id": job.id}, delivery_no=2)

    done = operations.discard(event.id, by=ME, reason="x")

    assert done.effect is Effect.DISCARDED
    assert world.job(job.id).lifecycle_status is LifecycleStatus.QUEUED


def test_discarding_the_delivery_of_a_job_in_hand_leaves_the_job_alone(
    world: World, operations: OutboxOperations
) -> None:
    job, event = dead(world)
    lease = world.claim(job.id)

    done = operations.discard(event.id, by=ME, reason="x")

    assert done.effect is Effect.DISCARDED
    assert world.job(job.id).lifecycle_status is LifecycleStatus.RUNNING
    assert world.run(lambda conn: world.app.lifecycle.mark_succeeded(conn, [lease])) == 1


def test_a_discarded_job_whose_cancel_was_asked_is_cancelled(
    world: World, operations: OutboxOperations
) -> None:
    job, event = dead(world)
    world.claim(job.id)
    world.app.jobs.request_cancel(job.id)
    world.advance(120)  # its worker is lost; the lease is over

    done = operations.discard(event.id, by=ME, reason="x")

    assert done.effect is Effect.JOB_CANCELLED
    assert world.job(job.id).lifecycle_status is LifecycleStatus.CANCELLED
    assert [e.event_type for e in world.endings(job.id)] == [EventType.CANCELLED]


def test_subscribers_hear_of_a_discarded_job(world: World, operations: OutboxOperations) -> None:
    world.app.on_end("billing")(lambda event: None)
    job, event = dead(world)

    operations.discard(event.id, by=ME, reason="x")

    assert [(e.subscriber, e.status) for e in world.endings(job.id)] == [("billing", EventStatus.PENDING)]


# -- both ----------------------------------------------------------------------------------------


def test_an_event_that_does_not_exist_is_named(operations: OutboxOperations) -> None:
    for act in (operations.redeliver, operations.discard):
        with pytest.raises(OutboxEventNotFound):
            act(uuid4(), by=ME, reason="x")


def test_every_act_is_written_down_with_its_author_and_its_effect(
    world: World, operations: OutboxOperations
) -> None:
    job, event = dead(world)
    operations.redeliver(event.id, by=ME, reason="Redis is back")
    world.change("outbox_event", {"id": event.id}, status="dead")
    operations.discard(event.id, by=ME, reason="no use")

    acts = world.app.uow.read(lambda conn: AuditRepository(world.app.clock).page(conn))

    assert [(a.verb, a.actor, a.edge, a.reason, a.request_id) for a in acts] == [
        ("outbox.discard", "alice", "cli", "no use", "r-1"),
        ("outbox.redeliver", "alice", "cli", "Redis is back", "r-1"),
    ]
    assert acts[0].object_id == str(event.id)
    assert acts[0].detail == {"jobId": str(job.id), "effect": "job_failed"}


def test_a_refused_act_leaves_no_trace(world: World, operations: OutboxOperations) -> None:
    job = world.create()
    [event] = world.deliveries(job.id)

    with pytest.raises(OutboxEventState):
        operations.discard(event.id, by=ME, reason="x")

    assert world.rows("audit_log") == []
    assert world.deliveries(job.id) == [event]
