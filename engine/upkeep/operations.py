"""What an operator may do with the outbox: deliver again, or give up. One transaction each, audit included.

Both are safe to do twice and beside everything that heals by itself: what is sent again carries a new
delivery number or the old one, and the move queued -> running happens once either way (OB-3, OB-10).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

import sqlalchemy as sa

from engine.errors import DispatchDiscarded
from engine.lifecycle import views
from engine.lifecycle.audit import Act, AuditRepository
from engine.lifecycle.endings import EndedJob, Endings
from engine.lifecycle.repository import AiJobLifecycleRepository
from engine.lifecycle.values import Failure
from engine.upkeep.errors import OutboxEventNotFound, OutboxEventState
from outbox import queries
from outbox.base.db import UnitOfWork
from outbox.events import EventType, NewEvent
from outbox.queries import EventView
from outbox.repository import OutboxRepository
from outbox.states import EventStatus
from registry.job import JobView, LifecycleStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class By:
    """Who acts, and through which edge: ``http``, ``cli`` or ``console``."""

    actor: str
    edge: str
    request_id: str | None = None


class Effect(StrEnum):
    """What an operation did."""

    #: The dead event is pending again, with a fresh budget.
    REVIVED = "revived"
    #: A new delivery of the job was written.
    REDELIVERED = "redelivered"
    #: The event is discarded and its job has failed with DISPATCH_DISCARDED.
    JOB_FAILED = "job_failed"
    #: The event is discarded and its job, whose cancel was asked, is cancelled.
    JOB_CANCELLED = "job_cancelled"
    #: Only the event is discarded: its job does not depend on it.
    DISCARDED = "discarded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What was done to which event and job."""

    event_id: UUID
    job_id: UUID
    effect: Effect
    #: The delivery that is on its way now, after a redelivery.
    delivery_no: int | None = None


class OutboxOperations:
    """Redelivers and discards events on behalf of a person."""

    def __init__(
        self,
        *,
        uow: UnitOfWork,
        lifecycle: AiJobLifecycleRepository,
        outbox: OutboxRepository,
        endings: Endings,
        audit: AuditRepository,
        look_after_ms: int = 60_000,
    ) -> None:
        """``look_after_ms``: when upkeep looks at a redelivered job (``UpkeepSettings.redelivery_ms``)."""
        self._uow = uow
        self._lifecycle = lifecycle
        self._outbox = outbox
        self._endings = endings
        self._audit = audit
        self._look_after_ms = look_after_ms

    # -------------------------------------------------------------- redeliver

    def redeliver(self, event_id: UUID, *, by: By, reason: str | None = None) -> Operation:
        """Hand an event on once more, in a transaction of its own.

        A dead event becomes pending with a fresh budget (OB-3). For a published delivery whose job nobody
        holds, the next delivery is written, for when Redis is known to have lost the ticket. Raises
        :class:`OutboxEventNotFound`, and :class:`OutboxEventState` where the event is on its way already, a
        worker holds the job, or the job has ended.
        """

        def unit(conn: sa.Connection) -> Operation:
            event = _found(conn, event_id)
            done = self._revive(conn, event) if event.status == EventStatus.DEAD else self._again(conn, event)
            self._note(conn, "outbox.redeliver", done, by, reason)
            return done

        return self._uow.run(unit)

    def _revive(self, conn: sa.Connection, event: EventView) -> Operation:
        if not self._outbox.revive(conn, event.id):
            raise OutboxEventState("the event is not dead any more: somebody was faster")
        return Operation(
            event_id=event.id, job_id=event.job_id, effect=Effect.REVIVED, delivery_no=event.delivery_no
        )

    def _again(self, conn: sa.Connection, event: EventView) -> Operation:
        _refuse_unless_delivered(event)
        job = _locked(conn, event.job_id)
        if job is None or job.is_final:
            raise OutboxEventState("its job has ended: there is nothing to deliver")
        if job.lock_until is not None:
            raise OutboxEventState("a worker holds its job; were it lost, upkeep would deliver the job again")
        if job.delivery_no != event.delivery_no:
            raise OutboxEventState(f"delivery {event.delivery_no} is not the present one, {job.delivery_no} is")
        number = self._lifecycle.redeliver(
            conn, job.id, job.delivery_no, look_after_ms=self._look_after_ms
        )
        if number is None:
            raise OutboxEventState("its job has moved on meanwhile")
        self._outbox.append(conn, [_delivery(job, number)])
        return Operation(
            event_id=event.id, job_id=job.id, effect=Effect.REDELIVERED, delivery_no=number
        )

    # -------------------------------------------------------------- discard

    def discard(self, event_id: UUID, *, by: By, reason: str) -> Operation:
        """Give a dead event up, in a transaction of its own; ``reason`` is kept with it.

        When it is the present delivery of a job, the job fails with ``DISPATCH_DISCARDED`` in the same
        transaction, terminal event included (design 6): nothing would ever start it. Raises
        :class:`OutboxEventNotFound` and :class:`OutboxEventState` (only dead events can be discarded).
        """

        def unit(conn: sa.Connection) -> Operation:
            event = _found(conn, event_id)
            if event.status != EventStatus.DEAD:
                raise OutboxEventState(f"the event is {event.status}; only a dead one can be discarded")
            # Locks in the house's order: the job's row first, the outbox last.
            ended = self._end_job(conn, event, by, reason) if event.event_type == EventType.ENQUEUE else None
            if not self._outbox.discard(conn, event.id, reason):
                raise OutboxEventState("the event is not dead any more: somebody was faster")
            done = Operation(
                event_id=event.id, job_id=event.job_id, effect=self._announce(conn, event, ended)
            )
            self._note(conn, "outbox.discard", done, by, reason)
            return done

        return self._uow.run(unit)

    def _end_job(self, conn: sa.Connection, event: EventView, by: By, reason: str) -> LifecycleStatus | None:
        """End the job that waits for ``event``; None where it does not depend on it."""
        job = _locked(conn, event.job_id)
        if job is None or job.is_final or job.delivery_no != event.delivery_no:
            return None
        lease = self._lifecycle.claim_doomed(conn, job.id, f"{by.edge}:discard")
        if lease is None:
            # A live lease: a worker got the job another way and will end it.
            return None
        error = DispatchDiscarded()
        failure = Failure(error.code, error.public_message, f"{error} Reason: {reason}")
        if self._lifecycle.mark_failed(conn, lease, failure):
            return LifecycleStatus.FAILED
        if self._lifecycle.mark_cancelled(conn, lease):
            return LifecycleStatus.CANCELLED
        raise OutboxEventState("its job has moved on meanwhile")

    def _announce(self, conn: sa.Connection, event: EventView, ended: LifecycleStatus | None) -> Effect:
        if ended is None:
            return Effect.DISCARDED
        failed = ended is LifecycleStatus.FAILED
        code = DispatchDiscarded.code if failed else None
        job = EndedJob(event.job_id, event.job_type, event.queue_name, event.priority, code)
        self._endings.announce(conn, [job], ended)
        return Effect.JOB_FAILED if failed else Effect.JOB_CANCELLED

    def _note(self, conn: sa.Connection, verb: str, done: Operation, by: By, reason: str | None) -> None:
        self._audit.append(
            conn,
            Act(
                actor=by.actor, edge=by.edge, verb=verb, object_type="outbox_event",
                object_id=str(done.event_id), reason=reason, request_id=by.request_id,
                detail={"jobId": str(done.job_id), "effect": done.effect.value},
            ),
        )  # fmt: skip


def _found(conn: sa.Connection, event_id: UUID) -> EventView:
    event = queries.find(conn, event_id)
    if event is None:
        raise OutboxEventNotFound(f"there is no outbox event {event_id}")
    return event


def _locked(conn: sa.Connection, job_id: UUID) -> JobView | None:
    return views.load(conn, [job_id], locking=True).get(job_id)


def _refuse_unless_delivered(event: EventView) -> None:
    if event.event_type != EventType.ENQUEUE or event.status != EventStatus.PUBLISHED:
        raise OutboxEventState(
            f"the event is {event.status}; only dead events and published deliveries can be sent again"
        )


def _delivery(job: JobView, number: int) -> NewEvent:
    return NewEvent(
        event_type=EventType.ENQUEUE,
        job_id=job.id,
        job_type=job.job_type,
        queue_name=job.queue_name,
        priority=job.priority,
        delivery_no=number,
        score_ms=int(max(job.created_at, job.available_at).timestamp() * 1000),
    )
