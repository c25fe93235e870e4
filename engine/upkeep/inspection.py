"""Looks a job over for people: everything on record about it, and why it is where it is.

The database is asked in one read; Redis is asked afterwards and may be away, which is itself an answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from engine.errors import JobNotFoundError
from engine.lifecycle import receipts, views
from engine.lifecycle.circumstances import Broker, Circumstances, Explanation
from engine.lifecycle.explain import explain
from engine.lifecycle.queues import QueueControlRepository, QueuePause
from engine.lifecycle.receipts import CommitView
from engine.lifecycle.views import ClaimView
from engine.upkeep.timeline import Moment, timeline
from engine.usage.repository import UsageRepository
from outbox import queries
from outbox.base.clock import DatabaseClock
from outbox.base.db import UnitOfWork
from outbox.errors import TransportError
from outbox.events import EventType
from outbox.queries import EventView
from outbox.transports.base import Transport
from projectors import artifacts
from projectors.protocol import ArtifactRef
from registry.job import JobView
from registry.registry import JobDefinitionRegistry

#: Newest events that are looked at for a sign of life of a dispatcher.
_LATEST = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectionOptions:
    """What the explanation counts with; times in ms (see ``engine.config``)."""

    poll_ms: int = 1_000
    claim_ttl_ms: int = 60_000
    upkeep_ms: int = 30_000
    redelivery_ms: int = 60_000
    high_water_mark: int = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """Everything on record about one job, read in one transaction; ``now`` is the database's time."""

    now: datetime
    job: JobView
    events: Sequence[EventView]
    claims: Sequence[ClaimView]
    #: Rows of ``ai_usage_log``.
    calls: Sequence[Mapping[str, Any]]
    artifacts: Sequence[ArtifactRef]
    #: What its handler committed itself.
    commits: Sequence[CommitView] = ()
    pause: QueuePause | None = field(default=None, repr=False)
    last_published: datetime | None = None

    @property
    def timeline(self) -> list[Moment]:
        """What happened, in order."""
        return timeline(
            self.job, events=self.events, claims=self.claims, calls=self.calls, artifacts=self.artifacts
        )

    @property
    def delivery(self) -> EventView | None:
        """The outbox event of the present delivery, while it is kept."""
        for event in self.events:
            if event.event_type == EventType.ENQUEUE and event.delivery_no == self.job.delivery_no:
                return event
        return None


class JobInspector:
    """Reads records of jobs and explains them. Writes nothing."""

    def __init__(
        self,
        *,
        uow: UnitOfWork,
        clock: DatabaseClock,
        registry: JobDefinitionRegistry,
        usage: UsageRepository,
        transport: Transport,
        options: InspectionOptions | None = None,
    ) -> None:
        self._uow = uow
        self._clock = clock
        self._registry = registry
        self._usage = usage
        self._transport = transport
        self._queues = QueueControlRepository(clock)
        self._options = options or InspectionOptions()

    def record(self, job_id: UUID) -> JobRecord:
        """What is on record about a job. Raises :class:`JobNotFoundError`."""
        return self._uow.read(lambda conn: self._record(conn, job_id))

    def explain(self, job_id: UUID) -> Explanation:
        """Why a job is where it is. Raises :class:`JobNotFoundError`."""
        return self.why(self.record(job_id))

    def why(self, record: JobRecord) -> Explanation:
        """Why the job of ``record`` is where it is. Redis is asked only where the answer may depend on it."""
        return explain(self._circumstances(record))

    # -------------------------------------------------------------- the database

    def _record(self, conn: sa.Connection, job_id: UUID) -> JobRecord:
        job = views.find(conn, job_id)
        if job is None:
            raise JobNotFoundError(f"there is no job {job_id}")
        latest = [event.published_at for event in queries.page(conn, limit=_LATEST) if event.published_at]
        return JobRecord(
            now=self._clock.read(conn),
            job=job,
            events=queries.of_job(conn, job_id),
            claims=views.claims(conn, job_id),
            calls=[dict(call) for call in self._usage.calls(conn, job_id)],
            artifacts=artifacts.existing(conn, job_id),
            commits=receipts.commits(conn, job_id),
            pause=self._queues.paused(conn).get(job.queue_name),
            last_published=max(latest, default=None),
        )

    # -------------------------------------------------------------- Redis

    def _circumstances(self, record: JobRecord) -> Circumstances:
        job, options = record.job, self._options
        needless = job.is_final or job.lock_until is not None or job.available_at > record.now
        queue = next((q for q in self._registry.queues if q.name == job.queue_name), None)
        leases: dict[str, Any] = {"lease_ms": queue.lease_ms, "heartbeat_ms": queue.heartbeat_ms} if queue else {}
        return Circumstances(
            now=record.now,
            job=job,
            delivery=record.delivery,
            claims=record.claims,
            pause=record.pause,
            last_published=record.last_published,
            type_known=self._registry.find(job.job_type) is not None,
            poll_ms=options.poll_ms,
            claim_ttl_ms=options.claim_ttl_ms,
            upkeep_ms=options.upkeep_ms,
            redelivery_ms=options.redelivery_ms,
            high_water_mark=options.high_water_mark,
            **leases,
            **({} if needless else self._broker(job)),
        )

    def _broker(self, job: JobView) -> dict[str, Any]:
        transport = self._transport
        try:
            workers, dispatchers = transport.workers(), transport.dispatchers()
            if not (transport.features.cross_process or workers or dispatchers):
                # Daemons have it inside a process of theirs, and this is not that process.
                return {"broker": Broker.ELSEWHERE}
            waiting = transport.depth([job.queue_name])[job.queue_name]
            alive = transport.alive([(job.queue_name, job.job_type, job.id)])[0]
        except TransportError:
            return {"broker": Broker.DOWN}
        return {"workers": workers, "dispatchers": dispatchers, "waiting": waiting, "ticket_alive": alive}
