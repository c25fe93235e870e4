"""A job's record and the reason of its state, read along its whole life on each database."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest

from engine.errors import JobNotFoundError, ProviderTimeout
from engine.lifecycle.circumstances import Why
from engine.lifecycle.queues import QueueControlRepository
from engine.lifecycle.values import Failure
from engine.upkeep.inspection import JobInspector
from outbox.errors import TransportUnavailable
from outbox.transports.base import WorkerPresence
from registry.queues import DEFAULT_QUEUES
from registry.registry import JobDefinitionRegistry
from tests.support.world import QUEUE, World

CARDS = {"cards": [{"front": "f", "back": "b"}]}


def inspector_of(world: World, *, registry: JobDefinitionRegistry | None = None) -> JobInspector:
    app = world.app
    app.start()
    return JobInspector(
        uow=app.uow, clock=app.clock, registry=registry or app.registry, usage=app.usage, transport=app.transport,
    )  # fmt: skip


@pytest.fixture
def inspector(world: World) -> JobInspector:
    return inspector_of(world)


def test_a_job_is_explained_at_every_station_of_its_way(world: World, inspector: JobInspector) -> None:
    job = world.create()
    assert inspector.explain(job.id).code is Why.OUTBOX_WAITING

    world.advance(40)
    assert inspector.explain(job.id).code is Why.NO_DISPATCHER

    world.transport.register_dispatcher("d-1")
    assert inspector.explain(job.id).code is Why.OUTBOX_WAITING

    world.dispatch()
    assert inspector.explain(job.id).code is Why.NO_WORKERS

    world.transport.register_worker("w-1", [QUEUE])
    assert inspector.explain(job.id).code is Why.QUEUE_BUSY

    world.claim(job.id)
    assert inspector.explain(job.id).code is Why.LEASE_LIVE

    world.advance(61)
    assert inspector.explain(job.id).code is Why.LEASE_EXPIRED

    world.settle()
    why = inspector.explain(job.id)
    assert (why.code, why.sentence.endswith("in attempt 2")) == (Why.SUCCEEDED, True)


def test_a_ticket_that_redis_lost_is_noticed(world: World, inspector: JobInspector) -> None:
    job = world.create()
    world.dispatch()
    world.transport.register_worker("w-1", [QUEUE])
    world.transport.cancel(job.queue_name, job.job_type, job.id)

    assert inspector.explain(job.id).code is Why.NO_DISPATCHER

    world.transport.register_dispatcher("d-1")
    assert inspector.explain(job.id).code is Why.TRANSPORT_LOST


def test_a_paused_queue_is_the_reason_of_a_job_that_waits(world: World, inspector: JobInspector) -> None:
    job = world.create()
    world.dispatch()
    control = QueueControlRepository(world.app.clock)
    world.run(lambda conn: control.pause(conn, QUEUE, by="ops", reason="provider is down"))

    why = inspector.explain(job.id)

    assert why.code is Why.QUEUE_PAUSED
    assert "provider is down" in why.sentence


def test_without_redis_the_database_still_explains(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def away() -> list[WorkerPresence]:
        raise TransportUnavailable(reason="connection")

    job = world.create()
    world.dispatch()
    monkeypatch.setattr(world.transport, "workers", away)

    assert inspector_of(world).explain(job.id).code is Why.REDIS_DOWN


def test_a_redis_inside_another_process_is_not_asked(
    world: World, inspector: JobInspector, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = world.create()
    world.dispatch()
    monkeypatch.setattr(world.transport, "depth", lambda _queues: pytest.fail("was asked"))

    # It is in memory, and no daemon of this process has registered there
    assert inspector.explain(job.id).code is Why.DELIVERED


def test_the_lease_of_the_jobs_queue_decides_when_it_looks_late(world: World, inspector: JobInspector) -> None:
    """ai-interactive: 30 s lease, 10 s heartbeat; 12 s left are no reason to worry there."""
    job = world.create(job_type="active_recall", payload={"question": "q", "reference": "r", "answer": "a"})
    world.claim(job.id, lease_ms=30_000)
    world.advance(18)

    assert inspector.explain(job.id).code is Why.LEASE_LIVE


def test_a_job_of_a_type_this_release_does_not_know_is_told_so(world: World) -> None:
    job = world.create()
    world.dispatch()
    world.transport.register_worker("w-1", [QUEUE])

    inspector = inspector_of(world, registry=JobDefinitionRegistry())

    assert inspector.explain(job.id).code is Why.UNKNOWN_TYPE


def test_the_pause_before_a_retry_in_place_belongs_to_no_attempt(world: World, inspector: JobInspector) -> None:
    job = world.create()
    lease = world.claim(job.id)
    world.advance(10)
    failure = Failure("PROVIDER_TIMEOUT", "p", "i")
    world.run(
        lambda conn: world.app.lifecycle.retry_in_place(
            conn, lease, failure, worker="w-1", lease_ms=60_000, waited_ms=4_000
        )
    )

    record = inspector.record(job.id)

    first, second = record.claims
    assert first.ended_at is not None
    pause = second.started_at - first.ended_at
    assert abs(pause.total_seconds() - 4) < 1
    what = [moment.what for moment in record.timeline]
    assert what == ["created", "published", "claimed", "released", "claimed"]


def test_a_claim_that_was_faster_than_the_mark_of_its_delivery_comes_after_it(
    world: World, inspector: JobInspector
) -> None:
    job = world.create()
    world.dispatch()
    world.claim(job.id)
    [event] = world.deliveries(job.id)
    world.change("outbox_event", {"id": event.id}, published_at=inspector.record(job.id).now + timedelta(seconds=1))

    assert [moment.what for moment in inspector.record(job.id).timeline] == ["created", "published", "claimed"]


def test_a_job_that_was_handed_back_is_told_so(world: World, inspector: JobInspector) -> None:
    job = world.create()
    lease = world.claim(job.id)
    world.run(lambda conn: world.app.lifecycle.release(conn, lease, look_after_ms=60_000))

    assert inspector.explain(job.id).sentence.startswith("its worker stopped and handed it back; ")


def test_an_unknown_job_is_named(inspector: JobInspector) -> None:
    with pytest.raises(JobNotFoundError):
        inspector.explain(uuid4())


def test_the_timeline_tells_the_way_of_a_job_in_order(world: World, inspector: JobInspector) -> None:
    world.provider.say(CARDS)
    job = world.create(job_type="flashcard_generation", payload={"text": "Water boils at 100 degrees."})
    world.settle()

    moments = inspector.record(job.id).timeline

    assert [m.what for m in moments] == ["created", "published", "claimed", "called", "answered", "succeeded"]
    answered = moments[4].detail
    assert (answered["inputTokens"], answered["outputTokens"], answered["errorCode"]) == (3, 5, None)
    assert moments[-1].detail["artifacts"] == {"flashcard": 1}
    assert all(before.at <= after.at for before, after in itertools.pairwise(moments))


def test_the_timeline_of_a_job_whose_creator_put_the_ticket_tells_that_it_was_there(
    make_world: Callable[..., World],
) -> None:
    """ADR 15. Nobody has marked the event: the job was over before a dispatcher came to it."""
    world = make_world(dispatcher={"early": True})
    job = world.create()
    assert world.transport.wait(QUEUE, 20_000)
    world.work()

    found = inspector_of(world).record(job.id).timeline

    assert [moment.what for moment in found] == ["created", "published", "claimed", "succeeded"]
    assert found[1].detail == {"queue": QUEUE, "deliveryNo": 1, "by": None}


def test_the_timeline_tells_failed_attempts_apart(make_world: Callable[..., World]) -> None:
    world = make_world(queues=[replace(queue, backoff_ms=1) for queue in DEFAULT_QUEUES])
    inspector = inspector_of(world)
    world.provider.say(ProviderTimeout(), CARDS)
    job = world.create(job_type="flashcard_generation", payload={"text": "Water boils at 100 degrees."})
    world.settle()

    record = inspector.record(job.id)

    claims = [m.detail for m in record.timeline if m.what == "claimed"]
    assert [(c["attempt"], c["reason"]) for c in claims] == [(1, "first"), (2, "retry")]
    [released] = [m.detail for m in record.timeline if m.what == "released"]
    assert (released["attempt"], released["errorCode"]) == (1, "PROVIDER_TIMEOUT")
    # The first call was sent and never answered: it stays open
    assert [m.what for m in record.timeline].count("called") == 2
    assert [m.what for m in record.timeline].count("answered") == 1


def test_the_timeline_shows_a_cancel(world: World, inspector: JobInspector) -> None:
    job = world.create()
    world.app.jobs.request_cancel(job.id)

    moments = inspector.record(job.id).timeline

    assert [m.what for m in moments] == ["created", "cancel_requested", "cancelled"]


def test_a_record_holds_no_input_and_no_output(world: World, inspector: JobInspector) -> None:
    world.provider.say({"cards": [{"front": "SECRET-OUT", "back": "b"}]})
    job = world.create(job_type="flashcard_generation", payload={"text": "SECRET-IN boils at 100 degrees."})
    world.settle()

    assert "SECRET" not in repr(inspector.record(job.id))
