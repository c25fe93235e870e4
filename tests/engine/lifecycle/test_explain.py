"""Why a job is where it is: every rule by an example, and an answer for every state there is."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.lifecycle.circumstances import Broker, Circumstances, Why, span
from engine.lifecycle.explain import explain
from engine.lifecycle.queues import QueuePause
from engine.lifecycle.views import ClaimView
from outbox.events import EventType
from outbox.queries import EventView
from outbox.states import EventStatus
from outbox.transports.base import WorkerPresence
from registry.job import JobView, LifecycleStatus, Outcome, WaitKind

NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
ID = UUID(int=7)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def hence(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def job(**given: Any) -> JobView:
    values: dict[str, Any] = dict.fromkeys(JobView.__dataclass_fields__)
    values |= {
        "id": ID, "user_id": "u", "job_type": "quiz_generation", "target_type": "doc", "target_id": "1",
        "queue_name": "ai-background", "priority": 50, "lifecycle_status": LifecycleStatus.QUEUED,
        "progress": 0, "attempt_count": 0, "max_attempts": 3, "epoch": 0, "delivery_no": 1,
        "credential_mode": "platform_key", "schema_version": "1", "output_schema_version": "1",
        "created_at": ago(100), "available_at": ago(100),
    }  # fmt: skip
    return JobView(**values | given)


def running(**given: Any) -> JobView:
    held = {"lifecycle_status": LifecycleStatus.RUNNING, "attempt_count": 1, "epoch": 1,
            "locked_by": "w-1", "lock_until": hence(50)}  # fmt: skip
    return job(**held | given)


def parked(kind: WaitKind | None, **given: Any) -> JobView:
    return running(**{"lock_until": None, "locked_by": None, "wait_kind": kind} | given)


def ended(status: LifecycleStatus, **given: Any) -> JobView:
    return job(**{"lifecycle_status": status, "finished_at": ago(10), "attempt_count": 1} | given)


def event(status: EventStatus, **given: Any) -> EventView:
    values: dict[str, Any] = {
        "id": UUID(int=9), "event_type": EventType.ENQUEUE.value, "job_id": ID, "job_type": "quiz_generation",
        "queue_name": "ai-background", "subscriber": "", "priority": 50, "deliver_score": 0, "delivery_no": 1,
        "status": status.value, "attempt_count": 0, "available_at": ago(100), "locked_by": None,
        "locked_at": None, "created_at": ago(100), "published_at": None, "last_error": None,
    }  # fmt: skip
    return EventView(**values | given)


def worker(*queues: str, executing: int = 0) -> WorkerPresence:
    return WorkerPresence("w-1", queues or ("ai-background",), "host", 1, 1_000, 100, executing)


def claim(error_code: str | None) -> ClaimView:
    return ClaimView(ID, 1, 1, "first", "w-1", ago(50), ago(40), error_code, None)


PUBLISHED = event(EventStatus.PUBLISHED, published_at=ago(5), locked_by="d-1")
PENDING = event(EventStatus.PENDING)
HELD = event(EventStatus.PROCESSING, locked_by="d-1", locked_at=ago(1))


def of(subject: JobView, **given: Any) -> Circumstances:
    return Circumstances(now=NOW, job=subject, **given)


CASES: dict[str, tuple[Circumstances, Why, bool]] = {
    "succeeded": (of(ended(LifecycleStatus.SUCCEEDED, outcome=Outcome.OK)), Why.SUCCEEDED, False),
    "failed": (
        of(ended(LifecycleStatus.FAILED, outcome=Outcome.ERROR, error_code="TIMEOUT")), Why.FAILED, False,
    ),
    "cancelled": (of(ended(LifecycleStatus.CANCELLED)), Why.CANCELLED, False),
    "expired": (of(ended(LifecycleStatus.FAILED, outcome=Outcome.EXPIRED)), Why.EXPIRED, False),
    "indeterminate": (
        of(ended(LifecycleStatus.FAILED, outcome=Outcome.INDETERMINATE)), Why.INDETERMINATE, True,
    ),
    "running under a fresh lease": (of(running()), Why.LEASE_LIVE, False),
    "running, two heartbeats missing": (of(running(lock_until=hence(20))), Why.LEASE_EXPIRING, False),
    "running, lease over": (of(running(lock_until=ago(3))), Why.LEASE_EXPIRED, False),
    "running, cancel asked": (of(running(cancel_requested_at=ago(3))), Why.CANCEL_PENDING, False),
    "waits for approval": (of(parked(WaitKind.APPROVAL)), Why.APPROVAL_OPEN, True),
    "waits for a tool": (of(parked(WaitKind.TOOL)), Why.TOOL_OPEN, False),
    "backs off": (
        of(parked(WaitKind.RETRY, available_at=hence(30)), claims=[claim("TIMEOUT")]), Why.BACKOFF, False,
    ),
    "rate limited": (of(parked(WaitKind.RATE, available_at=hence(30))), Why.RATE_LIMITED, False),
    "delayed by its creator": (of(job(available_at=hence(30)), delivery=PENDING), Why.DELAYED, False),
    "event just written": (of(job(), delivery=event(EventStatus.PENDING, available_at=ago(1))),
                           Why.OUTBOX_WAITING, False),
    "event waits, dispatchers are busy": (
        of(job(), delivery=PENDING, last_published=ago(3)), Why.OUTBOX_WAITING, False,
    ),
    "event waits, no dispatcher": (of(job(), delivery=PENDING), Why.NO_DISPATCHER, True),
    "event waits, a dispatcher has just begun": (
        of(job(), delivery=event(EventStatus.PENDING, available_at=ago(9)), dispatchers=[worker()]),
        Why.OUTBOX_WAITING, False,
    ),
    "event waits, and dispatchers that run do not take it": (
        of(job(), delivery=event(EventStatus.PENDING, available_at=ago(90)), dispatchers=[worker()]),
        Why.OUTBOX_WAITING, True,
    ),
    "event waits, its creator has put the ticket, nobody works": (
        of(job(), delivery=PENDING, dispatchers=[], ticket_alive=True), Why.NO_WORKERS, True,
    ),
    "event waits, its creator has put the ticket, all are busy": (
        of(job(), delivery=PENDING, dispatchers=[], ticket_alive=True, workers=[worker()]), Why.QUEUE_BUSY, False,
    ),
    "event of a redelivery waits beside an old ticket": (
        of(job(delivery_no=2), delivery=event(EventStatus.PENDING, delivery_no=2), ticket_alive=True),
        Why.NO_DISPATCHER, True,
    ),
    "event waits, none is listed": (of(job(), delivery=PENDING, dispatchers=[]), Why.NO_DISPATCHER, True),
    "Redis lost the ticket, and no dispatcher runs": (
        of(job(), delivery=PUBLISHED, workers=[worker()], ticket_alive=False, dispatchers=[]),
        Why.NO_DISPATCHER, True,
    ),
    "event waits, last dispatcher was long ago": (
        of(job(), delivery=PENDING, last_published=ago(31)), Why.NO_DISPATCHER, True,
    ),
    "event waits, Redis is away": (of(job(), delivery=PENDING, broker=Broker.DOWN), Why.REDIS_DOWN, True),
    "event waits, its queue is full": (of(job(), delivery=PENDING, waiting=2_000), Why.QUEUE_BUSY, False),
    "event was refused": (
        of(job(), delivery=event(EventStatus.PENDING, attempt_count=1, available_at=hence(4))),
        Why.OUTBOX_BACKOFF, False,
    ),
    "dispatcher holds it": (of(job(), delivery=HELD), Why.OUTBOX_CLAIMED, False),
    "dispatcher died with it": (
        of(job(), delivery=event(EventStatus.PROCESSING, locked_by="d-1", locked_at=ago(61))),
        Why.CLAIM_STALE, False,
    ),
    "event is dead": (of(job(), delivery=event(EventStatus.DEAD, attempt_count=3)), Why.OUTBOX_DEAD, True),
    "queue is paused": (
        of(job(), delivery=PUBLISHED, pause=QueuePause("ai-background", "ops", "provider down", ago(60), None)),
        Why.QUEUE_PAUSED, True,
    ),
    "queue is paused for a while": (
        of(job(), delivery=PUBLISHED, pause=QueuePause("ai-background", "ops", "x", ago(60), hence(60))),
        Why.QUEUE_PAUSED, False,
    ),
    "delivered, Redis is away": (of(job(), delivery=PUBLISHED, broker=Broker.DOWN), Why.REDIS_DOWN, True),
    "delivered to another process": (
        of(job(), delivery=PUBLISHED, broker=Broker.ELSEWHERE), Why.DELIVERED, False,
    ),
    "Redis lost the ticket": (
        of(job(), delivery=PUBLISHED, ticket_alive=False, workers=[worker()]), Why.TRANSPORT_LOST, False,
    ),
    "nobody listens": (
        of(job(), delivery=PUBLISHED, ticket_alive=True, workers=[worker("other")]), Why.NO_WORKERS, True,
    ),
    "this release does not know the type": (
        of(job(), delivery=PUBLISHED, ticket_alive=True, workers=[worker()], type_known=False),
        Why.UNKNOWN_TYPE, True,
    ),
    "waits its turn": (
        of(job(), delivery=PUBLISHED, ticket_alive=True, workers=[worker(executing=2)], waiting=14),
        Why.QUEUE_BUSY, False,
    ),
    "taken over, delivered again": (
        of(parked(None, delivery_no=2), delivery=PUBLISHED, ticket_alive=True, workers=[worker()]),
        Why.QUEUE_BUSY, False,
    ),
    "event is no longer kept": (of(job(), ticket_alive=True, workers=[worker()]), Why.QUEUE_BUSY, False),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_every_rule_answers_its_case(name: str) -> None:
    circumstances, code, needs_person = CASES[name]

    found = explain(circumstances)

    assert (found.code, found.needs_person) == (code, needs_person)
    assert found.sentence


def test_every_answer_has_a_case() -> None:
    assert {code for _, code, _ in CASES.values()} == set(Why)


def test_a_live_lease_says_when_it_ends_and_that_the_worker_renews_it() -> None:
    found = explain(of(running(attempt_count=2)))

    assert found.at == hence(50)
    assert found.sentence == "running on w-1, attempt 2 of 3; its lease ends in 50s"
    assert found.next_step == "the worker renews it before"


@pytest.mark.parametrize(
    ("given", "step"),
    [
        ({}, "upkeep delivers it again for attempt 2 of 3"),
        ({"attempt_count": 3}, "no attempts are left, so upkeep ends the job as failed"),
        ({"cancel_requested_at": ago(9)}, "upkeep ends the job as cancelled, as was asked"),
    ],
)
def test_a_lost_worker_leads_to_what_upkeep_will_do(given: dict[str, Any], step: str) -> None:
    found = explain(of(running(lock_until=ago(3), **given)))

    assert found.next_step == step
    assert found.at == hence(27)  # one round of upkeep after the lease


def test_a_lease_long_over_asks_for_a_dispatcher_which_carries_upkeep() -> None:
    assert explain(of(running(lock_until=ago(61)))).command == "aijobs dispatcher"
    assert explain(of(running(lock_until=ago(59)))).command is None


def test_backoff_names_the_last_error_and_the_next_attempt() -> None:
    circumstances, _, _ = CASES["backs off"]

    found = explain(circumstances)

    assert found.sentence == "attempt 1 of 3 failed with TIMEOUT"
    assert (found.next_step, found.at) == ("attempt 2 starts in 30s", hence(30))


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("event waits, no dispatcher", "aijobs dispatcher"),
        ("nobody listens", "aijobs worker ai-background"),
        ("event is dead", f"aijobs outbox redeliver {UUID(int=9)}"),
        ("failed", f"aijobs jobs retry {ID}"),
        ("queue is paused", "aijobs queues resume ai-background"),
        ("waits its turn", None),
        ("event just written", None),
    ],
)
def test_a_command_is_offered_where_one_helps(name: str, command: str | None) -> None:
    assert explain(CASES[name][0]).command == command


def test_without_a_shared_redis_one_process_for_all_roles_is_offered() -> None:
    found = explain(of(job(), delivery=PENDING, broker=Broker.ELSEWHERE))

    assert (found.code, found.command) == (Why.NO_DISPATCHER, "aijobs run")


def test_a_lost_ticket_says_when_upkeep_will_have_noticed() -> None:
    found = explain(CASES["Redis lost the ticket"][0])

    assert found.at == hence(85)  # published 5 s ago, redelivery after 60 s, a round of 30 s


_OPTIONAL_TIMES = st.sampled_from([None, ago(1_000), ago(3), NOW, hence(3), hence(1_000)])
_TIMES = st.sampled_from([ago(1_000), ago(3), NOW, hence(1_000)])


@given(
    status=st.sampled_from(LifecycleStatus),
    wait=st.sampled_from([None, *WaitKind]),
    outcome=st.sampled_from([None, *Outcome]),
    lock_until=_OPTIONAL_TIMES,
    available_at=_TIMES,
    cancel=_OPTIONAL_TIMES,
    finished_at=_OPTIONAL_TIMES,
    delivery=st.sampled_from([None, *EventStatus]),
    locked_at=_OPTIONAL_TIMES,
    due=_TIMES,
    broker=st.sampled_from(Broker),
    alive=st.sampled_from([None, True, False]),
    listening=st.booleans(),
    waiting=st.sampled_from([None, 0, 5_000]),
    known=st.booleans(),
)
def test_every_state_has_an_answer_that_can_be_printed(**drawn: Any) -> None:
    subject = job(
        lifecycle_status=drawn["status"], wait_kind=drawn["wait"], outcome=drawn["outcome"],
        lock_until=drawn["lock_until"], available_at=drawn["available_at"], locked_by="w-1",
        cancel_requested_at=drawn["cancel"], finished_at=drawn["finished_at"],
    )  # fmt: skip
    delivery = None
    if drawn["delivery"] is not None:
        delivery = event(drawn["delivery"], locked_at=drawn["locked_at"], available_at=drawn["due"])

    found = explain(
        of(
            subject, delivery=delivery, broker=drawn["broker"], ticket_alive=drawn["alive"],
            workers=[worker()] if drawn["listening"] else [], waiting=drawn["waiting"],
            type_known=drawn["known"],
        )
    )  # fmt: skip

    assert found.sentence
    assert "None" not in found.sentence
    ended_job = subject.is_final
    assert (found.code.value in ("SUCCEEDED", "FAILED", "CANCELLED", "EXPIRED", "INDETERMINATE")) == ended_job
    if found.at is not None and not ended_job:
        assert found.next_step


def test_the_answer_does_not_depend_on_what_another_queue_does() -> None:
    busy, _, _ = CASES["waits its turn"]
    more = replace(busy, workers=[*busy.workers, worker("other", executing=50)])

    assert explain(more) == explain(busy)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0.0s"), (0, "0.0s"), (0.44, "0.4s"), (12, "12s"), (59.7, "1m"), (60, "1m"), (252, "4m 12s"),
        (3_600, "1h"), (11_100, "3h 5m"), (187_200, "2d 4h"),
    ],
)  # fmt: skip
def test_spans_read_as_people_say_them(seconds: float, text: str) -> None:
    assert span(timedelta(seconds=seconds)) == text


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("INTERNAL_HANDLER", "a mistake in code is tried once more only"),
        ("CREDENTIAL_INVALID", "this error is not retried"),
    ],
)
def test_attempts_that_were_left_over_are_explained(code: str, says: str) -> None:
    failed = job(
        lifecycle_status=LifecycleStatus.FAILED, outcome=Outcome.ERROR, error_code=code, attempt_count=1,
        max_attempts=3, finished_at=NOW,
    )  # fmt: skip

    assert explain(of(failed)).sentence.endswith(f"with {code} (attempt 1 of 3; {says})")
