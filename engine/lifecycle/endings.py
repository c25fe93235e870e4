"""What every end of a job does beside the job's own row, in the same transaction (design 8).

Deliveries that are still waiting become obsolete, and the terminal event is written: one row per
subscriber, or one that is published already where nobody subscribed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

import sqlalchemy as sa

from outbox.events import SUBSCRIBER_QUEUE, EventType, NewEvent
from outbox.repository import OutboxRepository
from registry.job import LifecycleStatus

_EVENTS: dict[LifecycleStatus, EventType] = {
    LifecycleStatus.SUCCEEDED: EventType.COMPLETED,
    LifecycleStatus.FAILED: EventType.FAILED,
    LifecycleStatus.CANCELLED: EventType.CANCELLED,
}


@dataclass(frozen=True, slots=True)
class EndedJob:
    """What the terminal event says about a job: names and numbers only."""

    id: UUID
    job_type: str
    queue_name: str
    priority: int
    error_code: str | None = None


class Endings:
    """Writes what belongs to the end of jobs; the caller owns the transaction."""

    def __init__(
        self, outbox: OutboxRepository, subscribers: Callable[[EventType], Sequence[str]] = lambda _: ()
    ) -> None:
        self._outbox = outbox
        self._subscribers = subscribers

    def announce(self, conn: sa.Connection, jobs: Sequence[EndedJob], status: LifecycleStatus) -> None:
        """Make waiting deliveries of ``jobs`` obsolete and write their terminal events."""
        self._outbox.mark_obsolete(conn, [job.id for job in jobs], EventType.ENQUEUE)
        event_type = _EVENTS[status]
        names = self._subscribers(event_type) or [""]
        self._outbox.append(conn, [_event(job, event_type, status, name) for job in jobs for name in names])


def _event(job: EndedJob, event_type: EventType, status: LifecycleStatus, subscriber: str) -> NewEvent:
    extra = {"lifecycleStatus": status.value}
    if job.error_code:
        extra["errorCode"] = job.error_code
    return NewEvent(
        event_type=event_type,
        job_id=job.id,
        job_type=job.job_type,
        queue_name=SUBSCRIBER_QUEUE,
        priority=job.priority,
        delivery_no=0,
        subscriber=subscriber,
        published=not subscriber,
        extra=extra,
    )
