"""Writes what was decided about an attempt that did not succeed, each in one short transaction.

Whatever brings a job back writes an outbox event in the same transaction: every way back uses the way in.
"""

from __future__ import annotations

import sqlalchemy as sa

from engine.lifecycle.endings import Endings
from engine.lifecycle.lease import Claim, Fenced, Lease
from engine.lifecycle.repository import AiJobLifecycleRepository
from engine.pipeline.project import Ending, cancel_or_fenced, ended
from engine.pipeline.retry import Fail, Park, RetryInPlace
from engine.pipeline.work import Work
from outbox.base.db import UnitOfWork
from outbox.events import EventType, NewEvent
from outbox.repository import OutboxRepository
from registry.job import LifecycleStatus, StartReason


class Settler:
    """The endings of an attempt other than success. Runs on database threads."""

    def __init__(
        self,
        *,
        uow: UnitOfWork,
        lifecycle: AiJobLifecycleRepository,
        outbox: OutboxRepository,
        endings: Endings,
        worker: str,
        look_after_ms: int,
    ) -> None:
        """``look_after_ms``: when upkeep asks whether a job that was left has come back."""
        self._uow = uow
        self._lifecycle = lifecycle
        self._outbox = outbox
        self._endings = endings
        self._worker = worker
        self._look_after_ms = look_after_ms

    def fail(self, work: Work, decision: Fail) -> Ending:
        """running -> failed, or cancelled where that was asked first."""

        def unit(conn: sa.Connection) -> Ending:
            if self._lifecycle.mark_failed(conn, work.lease, decision.failure):
                self._endings.announce(conn, [ended(work, decision.failure.code)], LifecycleStatus.FAILED)
                return Ending.FAILED
            if self._lifecycle.ended_by(conn, work.lease, LifecycleStatus.FAILED):
                return Ending.FAILED
            return cancel_or_fenced(conn, work, self._lifecycle, self._endings)

        return self._uow.run(unit, repeatable=True)

    def cancel(self, work: Work) -> Ending:
        """running -> cancelled, under our claim."""

        def unit(conn: sa.Connection) -> Ending:
            if self._lifecycle.mark_cancelled(conn, work.lease):
                self._endings.announce(conn, [ended(work)], LifecycleStatus.CANCELLED)
                return Ending.CANCELLED
            done = self._lifecycle.ended_by(conn, work.lease, LifecycleStatus.CANCELLED)
            return Ending.CANCELLED if done else Ending.FENCED

        return self._uow.run(unit, repeatable=True)

    def park(self, work: Work, decision: Park) -> Ending:
        """running -> parked, with the event that brings the job back."""

        def unit(conn: sa.Connection) -> Ending:
            number = self._lifecycle.park(
                conn,
                work.lease,
                decision.kind,
                delay_ms=decision.delay_ms,
                reason=decision.reason,
                failure=decision.failure,
                look_after_ms=self._look_after_ms,
            )
            return self._left(conn, work, number, decision.delay_ms)

        return self._uow.run(unit, repeatable=True)

    def release(self, work: Work) -> Ending:
        """Hand the lease back: the job starts elsewhere at once and has used no attempt (WL-17)."""

        def unit(conn: sa.Connection) -> Ending:
            number = self._lifecycle.release(conn, work.lease, look_after_ms=self._look_after_ms)
            return self._left(conn, work, number, 0)

        return self._uow.run(unit, repeatable=True)

    def _left(self, conn: sa.Connection, work: Work, number: int | Fenced, delay_ms: int) -> Ending:
        if isinstance(number, Fenced):
            return cancel_or_fenced(conn, work, self._lifecycle, self._endings)
        self._outbox.append(conn, [comeback(work, number, delay_ms)])
        return Ending.LEFT

    def retry_in_place(self, work: Work, decision: RetryInPlace) -> Claim | Ending:
        """The claim of the next attempt, here; or how the job ended instead."""

        def unit(conn: sa.Connection) -> Claim | Ending:
            answer = self._lifecycle.retry_in_place(
                conn, work.lease, decision.failure, worker=self._worker, lease_ms=work.queue.lease_ms,
                waited_ms=decision.delay_ms,
            )  # fmt: skip
            if isinstance(answer, Claim):
                return answer
            return cancel_or_fenced(conn, work, self._lifecycle, self._endings)

        def landed(conn: sa.Connection) -> Claim | None:
            # After a COMMIT without an answer: the next claim, when it is stored and still ours (CI-9).
            lease = Lease(work.lease.job_id, work.lease.epoch + 1)
            stored = lease in self._lifecycle.held(conn, [lease], self._worker)
            return Claim(lease, work.claim.attempt_no + 1, StartReason.RETRY) if stored else None

        return self._uow.run(unit, landed=landed)


def comeback(work: Work, delivery_no: int, delay_ms: int) -> NewEvent:
    """The event that delivers a job again; it keeps the job's place in the queue."""
    job = work.job
    return NewEvent(
        event_type=EventType.ENQUEUE,
        job_id=job.id,
        job_type=job.job_type,
        queue_name=job.queue_name,
        priority=job.priority,
        delivery_no=delivery_no,
        delay_ms=delay_ms,
        score_ms=None if delay_ms else int(max(job.created_at, job.available_at).timestamp() * 1000),
    )


