"""What a claim tells the worker is what stands in the rows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from engine.lifecycle import views
from engine.lifecycle.candidates import ClaimedJob
from engine.lifecycle.conformance.words import Bench, Situation, new_job
from engine.lifecycle.lease import Refusal
from engine.lifecycle.repository import AiJobLifecycleRepository
from engine.lifecycle.snapshots import Snapshot, SnapshotRepository
from outbox.base.clock import DatabaseClock
from outbox.base.db import UnitOfWork
from outbox.base.ids import new_id

ANY = 99
_PAST = datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)


@pytest.fixture
def bench(shared_uow: UnitOfWork) -> Bench:
    clock = DatabaseClock()
    return Bench(AiJobLifecycleRepository(clock), shared_uow, clock)


def claim(bench: Bench, *job_ids: UUID) -> dict[UUID, ClaimedJob | Refusal]:
    return bench.uow.run(
        lambda conn: bench.lifecycle.claim(
            conn, dict.fromkeys(job_ids, ANY), worker="worker-7", lease_ms=60_000
        )
    )


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"idempotency_key": None, "idempotency_digest": None},
        {
            "user_id": "ユーザー", "target_id": "100 % ' \\", "priority": 0, "available_at": _PAST,
            "credential_mode": "user_deepseek_key", "credential_id": "key-1", "prompt_version": "3",
            "schema_version": "2", "output_schema_version": "4", "retry_of_job_id": new_id(),
        },
    ],
)  # fmt: skip
def test_the_view_of_a_claimed_job_equals_its_row(bench: Bench, fields: dict[str, Any]) -> None:
    job_id = bench.insert(**fields).job_id

    answer = claim(bench, job_id)[job_id]

    assert isinstance(answer, ClaimedJob)
    assert answer.job == bench.uow.read(lambda conn: views.find(conn, job_id))
    assert answer.job.locked_by == "worker-7"
    assert answer.job.lock_until - answer.job.started_at > timedelta(seconds=59)  # type: ignore[operator]


@pytest.mark.parametrize(
    "situation",
    [
        Situation.ENDED,
        Situation.FREE,
        Situation.HANDED_BACK,
        Situation.PARKED_DUE,
        Situation.ASKED_ENDED,
    ],
)
def test_so_it_does_when_the_job_was_started_before(bench: Bench, situation: Situation) -> None:
    lease = bench.a_job(situation)

    answer = claim(bench, lease.job_id)[lease.job_id]

    assert isinstance(answer, ClaimedJob)
    assert answer.job == bench.uow.read(lambda conn: views.find(conn, lease.job_id))
    assert answer.claim.lease.epoch == lease.epoch + 1


def test_each_job_comes_with_its_own_input(bench: Bench) -> None:
    snapshots = SnapshotRepository(bench.clock)
    stored = {
        id_: Snapshot(id_, f'"{id_}"'.encode(), bytes(32), "1", "0") for id_ in (new_id(), new_id())
    }
    bare = new_job()

    def create(conn: Any) -> None:
        bench.lifecycle.insert(conn, [new_job(id=id_) for id_ in stored] + [bare])
        snapshots.insert(conn, [(snapshot, 1) for snapshot in stored.values()])

    bench.uow.run(create)
    answers = claim(bench, *stored, bare.id)

    assert {id_: a.snapshot for id_, a in answers.items() if isinstance(a, ClaimedJob)} == {
        **stored,
        bare.id: None,
    }


def test_a_refused_job_is_answered_with_its_reason_beside_the_claimed(bench: Bench) -> None:
    good, live, gone = bench.insert().job_id, bench.a_job(Situation.LIVE).job_id, new_id()

    answers = claim(bench, good, live, gone)

    assert isinstance(answers[good], ClaimedJob)
    assert answers[live] is Refusal.LEASED
    assert answers[gone] is Refusal.MISSING
