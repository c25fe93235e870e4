"""The facts that leave the database: their names, and what a row of ``outbox_event`` says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple
from uuid import UUID

from outbox.base.canonical import canonical_bytes, identity_digest
from outbox.base.ids import new_id


class EventType(StrEnum):
    """Names of the events this release writes. A name it does not know stays pending (OB-4)."""

    #: A job is to be delivered to a worker.
    ENQUEUE = "ai.job.enqueue"
    #: A job ended; written in the transaction that ended it.
    COMPLETED = "ai.job.completed"
    FAILED = "ai.job.failed"
    CANCELLED = "ai.job.cancelled"


#: Where events for subscribers wait; no queue of jobs can have this name.
SUBSCRIBER_QUEUE = "@events"


# Not frozen: a frozen one costs four times as much to make, and a call makes hundreds.
@dataclass(slots=True)
class NewEvent:
    """An event to be written in the caller's transaction.

    ``delay_ms`` counts from now on the database's clock; ``available_at`` is an instant the caller chose.
    ``score_ms`` gives a redelivery the place of the first delivery instead of the end of the queue.
    """

    event_type: str
    job_id: UUID
    job_type: str
    queue_name: str
    priority: int
    delivery_no: int
    delay_ms: int = 0
    available_at: datetime | None = None
    score_ms: int | None = None
    traceparent: str | None = None
    subscriber: str = ""
    published: bool = False
    extra: Mapping[str, str] = field(default_factory=dict)
    id: UUID = field(default_factory=new_id)

    @property
    def dedupe_digest(self) -> bytes:
        """Event type, job, delivery and subscriber: another delivery is another event (OB-10)."""
        return identity_digest(self.event_type, self.job_id.bytes, str(self.delivery_no), self.subscriber)

    @property
    def payload(self) -> str:
        """Canonical JSON of exactly what ADR-003 8.5 allows: no user, no key, no content."""
        head, tail = _around_job_id(self.job_type, self.queue_name, self.priority, tuple(self.extra.items()))
        return f"{head}{self.job_id}{tail}"



@lru_cache(maxsize=1024)
def _around_job_id(
    job_type: str, queue_name: str, priority: int, extra: tuple[tuple[str, str], ...]
) -> tuple[str, str]:
    """A payload before and after its job's id; all the rest is the same for many events."""
    words = {"jobId": "", "jobType": job_type, "queueName": queue_name, "priority": priority, **dict(extra)}
    head, member, tail = canonical_bytes(words).decode().partition('"jobId":"')
    return head + member, tail


class ClaimedDelivery(NamedTuple):
    """Of an event that this dispatcher holds: what its ticket says, and what a refusal counts."""

    id: UUID
    job_id: UUID
    job_type: str
    delivery_no: int
    deliver_score: int
    attempt_count: int
    traceparent: str | None
    queue_name: str


@dataclass(frozen=True, slots=True)
class ClaimedEvent:
    """An event that is held for the claim time, with all that a subscriber is told."""

    id: UUID
    event_type: str
    job_id: UUID
    job_type: str
    queue_name: str
    priority: int
    delivery_no: int
    deliver_score: int
    attempt_count: int
    traceparent: str | None
    subscriber: str
    payload: str
