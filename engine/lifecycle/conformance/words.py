"""What the suite speaks in: jobs in every situation, and everything that may be tried on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa

from engine.lifecycle.candidates import ClaimedJob
from engine.lifecycle.lease import Claim, Fenced, Lease, Refusal
from engine.lifecycle.models import AI_JOB
from engine.lifecycle.repository import AiJobLifecycleRepository
from engine.lifecycle.values import Failure, NewJob
from outbox.base.canonical import identity_digest
from outbox.base.clock import DatabaseClock
from outbox.base.db import UnitOfWork
from outbox.base.ids import new_id
from outbox.base.later import Shortfall
from registry.job import LifecycleStatus, StartReason, WaitKind

LEASE_MS = 60_000
LOOK_MS = 60_000
WORKER = "worker-a"
#: Newer than any delivery: a claim with it is never stale.
ANY_DELIVERY = 1_000_000
FAILURE = Failure("PROVIDER_ERROR", "The provider failed.", "ProviderError: 500", ("say it in French",))


class Situation(StrEnum):
    """Every situation a job can be in, more exactly than its state."""

    QUEUED = "queued"
    DELAYED = "queued, due in an hour"
    LIVE = "running under a live lease"
    ENDED = "running under a lease that has ended"
    FREE = "running, taken over, held by nobody"
    HANDED_BACK = "running, handed back, held by nobody"
    PARKED = "running, parked, due in a minute"
    PARKED_DUE = "running, parked, due"
    WAITING = "running, waiting for an approval"
    ASKED = "running under a live lease, asked to cancel"
    ASKED_ENDED = "running under a lease that has ended, asked to cancel"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def status(self) -> LifecycleStatus:
        """The state in which a job of this situation is."""
        return LifecycleStatus(self.value.partition(",")[0].partition(" ")[0])


#: Something that may be tried on a job: (connection, lease of the job's present epoch) -> the answer.
Act = Callable[[sa.Connection, Lease], Any]


def new_job(**fields: Any) -> NewJob:
    """A job with a key of its own, ready to be inserted."""
    id_ = new_id()
    values: dict[str, Any] = {
        "id": id_, "user_id": "user-1", "job_type": "synthetic", "target_type": "note", "target_id": "1",
        "idempotency_key": id_.hex, "idempotency_digest": identity_digest(id_.bytes),
        "request_fingerprint": identity_digest("request"), "queue_name": "ai-background", "priority": 50,
        "max_attempts": 3, "available_at": None, "credential_mode": "platform_key", "credential_id": None,
        "prompt_version": None, "schema_version": "1", "output_schema_version": "1",
        "retry_of_job_id": None, "traceparent": None,
    }  # fmt: skip
    return NewJob(**(values | fields))


class Bench:
    """A repository on a database; jobs are brought into their situations by its own methods."""

    def __init__(self, lifecycle: AiJobLifecycleRepository, uow: UnitOfWork, clock: DatabaseClock) -> None:
        self.lifecycle = lifecycle
        self.uow = uow
        self.clock = clock

    def run(self, act: Act, lease: Lease) -> Any:
        """Try ``act`` in a transaction of its own."""
        try:
            return self.uow.run(lambda conn: act(conn, lease))
        except Shortfall:
            return False

    def insert(self, **fields: Any) -> Lease:
        """A new job; its "lease" is that of an epoch nobody was given."""
        job = new_job(**fields)
        self.uow.run(lambda conn: self.lifecycle.insert(conn, [job]))
        return Lease(job.id, 0)

    def try_claim(
        self, job_id: UUID, *, delivery_no: int = ANY_DELIVERY, worker: str = WORKER, lease_ms: int = LEASE_MS
    ) -> Claim | Refusal:
        """Claim one job."""
        answers = self.uow.run(
            lambda conn: self.lifecycle.claim(conn, {job_id: delivery_no}, worker=worker, lease_ms=lease_ms)
        )
        answer = answers[job_id]
        return answer.claim if isinstance(answer, ClaimedJob) else answer

    def claim(self, job_id: UUID, **how: Any) -> Lease:
        """Claim one job that may be claimed."""
        answer = self.try_claim(job_id, **how)
        assert isinstance(answer, Claim), answer
        return answer.lease

    def row(self, job_id: UUID) -> dict[str, Any] | None:
        """Every column of a job, or None."""
        query = sa.select(AI_JOB).where(AI_JOB.c.id == job_id)
        found = self.uow.read(lambda conn: conn.execute(query).mappings().first())
        return None if found is None else dict(found)

    def status(self, job_id: UUID) -> LifecycleStatus | None:
        """The state of a job, or None."""
        row = self.row(job_id)
        return None if row is None else LifecycleStatus(row["lifecycle_status"])

    def a_job(self, situation: Situation) -> Lease:
        """A new job in ``situation``, with the lease of its present epoch."""
        if situation is Situation.QUEUED:
            return self.insert()
        if situation is Situation.DELAYED:
            now = self.uow.read(self.clock.read)
            return self.insert(available_at=now + timedelta(hours=1))
        lease = self.claim(self.insert().job_id)
        for act in self._way_to(situation):
            assert act(lease) not in (None, False, 0), situation
        row = self.row(lease.job_id)
        assert row is not None
        return replace(lease, epoch=row["epoch"])

    def _way_to(self, situation: Situation) -> list[Callable[[Lease], Any]]:
        def act(name: str) -> Callable[[Lease], Any]:
            return lambda lease: self.run(self.acts()[name], lease)

        def pass_time(_lease: Lease) -> bool:
            self.clock.advance(LEASE_MS + 1_000)
            return True

        ways: dict[Situation, list[Callable[[Lease], Any]]] = {
            Situation.LIVE: [],
            Situation.ENDED: [pass_time],
            Situation.FREE: [pass_time, act("take_over")],
            Situation.HANDED_BACK: [act("release")],
            Situation.PARKED: [act("park")],
            Situation.PARKED_DUE: [act("park"), pass_time],
            Situation.WAITING: [act("wait")],
            Situation.ASKED: [act("request_cancel")],
            Situation.ASKED_ENDED: [act("request_cancel"), pass_time],
            Situation.SUCCEEDED: [act("mark_succeeded")],
            Situation.FAILED: [act("mark_failed")],
            Situation.CANCELLED: [act("request_cancel"), act("mark_cancelled")],
        }
        return ways[situation]

    def acts(self) -> dict[str, Act]:
        """Everything that can be tried, by name; an answer that means "refused" is falsy."""
        it, ms = self.lifecycle, LEASE_MS
        return {
            "claim": lambda c, x: _granted(
                it.claim(c, {x.job_id: ANY_DELIVERY}, worker=WORKER, lease_ms=ms)[x.job_id]
            ),
            "claim_untouched": lambda c, x: it.claim_untouched(
                c, x.job_id, job_type="synthetic", worker=WORKER, lease_ms=ms
            ),
            "claim_doomed": lambda c, x: it.claim_doomed(c, x.job_id, WORKER),
            "retry_in_place": lambda c, x: _granted(
                it.retry_in_place(c, x, FAILURE, worker=WORKER, lease_ms=ms)
            ),
            "heartbeat": self._beat,
            "report_progress": lambda c, x: it.report_progress(c, x, 70, "almost"),
            "park": lambda c, x: _granted(it.park(
                c, x, WaitKind.RETRY, delay_ms=ms, reason=StartReason.RETRY, failure=FAILURE, look_after_ms=LOOK_MS
            )),
            "wait": lambda c, x: _granted(it.park(
                c, x, WaitKind.APPROVAL, delay_ms=0, reason=StartReason.RESUME, look_after_ms=LOOK_MS
            )),
            "release": lambda c, x: _granted(it.release(c, x, look_after_ms=LOOK_MS)),
            "mark_succeeded": lambda c, x: it.mark_succeeded(c, [x]),
            "mark_failed": lambda c, x: it.mark_failed(c, x, FAILURE),
            "mark_cancelled": lambda c, x: it.mark_cancelled(c, x),
            "request_cancel": lambda c, x: it.request_cancel(c, x.job_id),
            "take_over": lambda c, x: it.take_over(c, x, look_after_ms=LOOK_MS),
            "end_failed": lambda c, x: it.end_abandoned(c, x, LifecycleStatus.FAILED, Failure("LEASE_LOST")),
            "end_cancelled": lambda c, x: it.end_abandoned(c, x, LifecycleStatus.CANCELLED, None),
            "redeliver": lambda c, x: it.redeliver(
                c, x.job_id, self._delivery_no(c, x), look_after_ms=LOOK_MS
            ),
            "give_up_key": lambda c, x: it.give_up_key(c, x.job_id),
            "withdraw": lambda c, x: it.withdraw(c, [x.job_id]),
            "stamp_delivered": lambda c, x: it.stamp_delivered(c, [x.job_id], look_after_ms=LOOK_MS),
        }  # fmt: skip

    def _beat(self, conn: sa.Connection, lease: Lease) -> bool:
        self.lifecycle.heartbeat(conn, [lease], lease_ms=2 * LEASE_MS)
        return lease in self.lifecycle.alive(conn, [lease])

    @staticmethod
    def _delivery_no(conn: sa.Connection, lease: Lease) -> int:
        query = sa.select(AI_JOB.c.delivery_no).where(AI_JOB.c.id == lease.job_id)
        return conn.execute(query).scalar_one_or_none() or 1


def _granted(answer: Any) -> Any:
    return None if isinstance(answer, Fenced | Refusal) else answer


class Promises:
    """A chapter of the suite: what it is run on. A subclass supplies the three fixtures."""

    @pytest.fixture
    def uow(self) -> UnitOfWork:
        """On a database with all tables."""
        raise NotImplementedError("supply a fixture `uow`")

    @pytest.fixture
    def clock(self) -> DatabaseClock:
        """The clock that the repository was made with; the suite moves it."""
        return DatabaseClock()

    @pytest.fixture
    def lifecycle(self, clock: DatabaseClock) -> AiJobLifecycleRepository:
        """The repository under test."""
        return AiJobLifecycleRepository(clock)

    @pytest.fixture
    def bench(self, lifecycle: AiJobLifecycleRepository, uow: UnitOfWork, clock: DatabaseClock) -> Bench:
        """All three together."""
        return Bench(lifecycle, uow, clock)
