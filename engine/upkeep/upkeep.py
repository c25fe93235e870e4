"""Upkeep: one round heals what crashed processes and a forgetful Redis have left behind.

    expired leases ........ taken over, or ended when attempts are used up or a cancel was asked
    lost tickets .......... jobs that nobody holds and no ticket stands for are delivered again (OB-9)
    expired outbox claims . released (OB-7)
    dead deliveries ....... become obsolete once no job waits for them
    retention ............. old events, inputs and outputs are dropped in small batches (OB-8, OB-11)

Every remedy is a conditional update of its own; two processes that meet here do no harm.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

import sqlalchemy as sa

from engine.errors import LeaseExhausted
from engine.lifecycle import views
from engine.lifecycle.endings import EndedJob, Endings
from engine.lifecycle.lease import Lease
from engine.lifecycle.outputs import OutputRepository
from engine.lifecycle.repository import AiJobLifecycleRepository
from engine.lifecycle.snapshots import SnapshotRepository
from engine.lifecycle.values import Failure
from engine.lifecycle.views import Overdue
from engine.upkeep.decision import Remedy, remedy
from engine.usage.repository import UsageRepository
from outbox import queries
from outbox.base.clock import DatabaseClock
from outbox.base.db import UnitOfWork
from outbox.base.errors import DatabaseUnavailable
from outbox.base.points import Point, point
from outbox.base.telemetry import Telemetry
from outbox.errors import TransportError, reason_of
from outbox.events import EventType, NewEvent
from outbox.repository import OutboxRepository
from outbox.states import EventStatus
from outbox.transports.base import Transport
from registry.job import LifecycleStatus, Outcome
from registry.registry import JobDefinitionRegistry

_DAY_MS = 86_400_000

_log = logging.getLogger("aijobs.upkeep")


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepOptions:
    """Times in ms; see ``engine.config.UpkeepSettings``."""

    redelivery_ms: int = 60_000
    claim_ttl_ms: int = 60_000
    published_days: int = 7
    dead_days: int = 30
    batch: int = 200


#: Remedies that write a delivery, which a dispatcher has to put.
_DELIVERING = frozenset({Remedy.TAKE_OVER, Remedy.CHECK_DELIVERY})


class Upkeep:
    """Heals; stateless, so any number may run."""

    def __init__(
        self,
        *,
        uow: UnitOfWork,
        clock: DatabaseClock,
        registry: JobDefinitionRegistry,
        lifecycle: AiJobLifecycleRepository,
        outbox: OutboxRepository,
        endings: Endings,
        usage: UsageRepository,
        snapshots: SnapshotRepository,
        outputs: OutputRepository,
        transport: Transport,
        telemetry: Telemetry,
        options: UpkeepOptions | None = None,
        chores: Sequence[Callable[[], int]] = (),
        delivers: bool = True,
    ) -> None:
        """``chores`` purge what the edges keep for a time; each does a batch and says how many rows it took.

        Without ``delivers`` no new delivery is written: a worker cannot put one, and with no dispatcher left
        a new number would only make the ticket stale that comes back by itself (WL-6).
        """
        self._uow = uow
        self._clock = clock
        self._registry = registry
        self._lifecycle = lifecycle
        self._outbox = outbox
        self._endings = endings
        self._usage = usage
        self._snapshots = snapshots
        self._outputs = outputs
        self._transport = transport
        self._telemetry = telemetry
        self._options = options or UpkeepOptions()
        self._chores = tuple(chores)
        self._delivers = delivers

    def run_once(self) -> bool:
        """One round; returns whether there is more than a batch of any kind left.

        A part that fails keeps no other from its work; its error is raised at the end of the round.
        """
        more, failures = False, []
        for part in (self.heal_jobs, self.release_claims, self.retire_deliveries, self.clean_up):
            try:
                more = part() or more
            except DatabaseUnavailable:
                raise
            except Exception as error:  # noqa: BLE001 - it is raised below
                failures.append(error)
        if failures:
            raise failures[0]
        return more

    # -------------------------------------------------------------- jobs

    def heal_jobs(self) -> bool:
        """Look at overdue jobs; returns whether there are more of them than one batch."""
        limit = self._options.batch
        overdue = self._uow.read(lambda conn: views.overdue(conn, self._clock, limit=limit))
        if overdue:
            point(Point.UPKEEP_AFTER_READ)
        idle, free = [], self._not_held_up(overdue)
        for job in free:
            cure = remedy(job)
            if cure in _DELIVERING and not self._delivers:
                continue
            if cure is Remedy.CHECK_DELIVERY:
                idle.append(job)
            else:
                self._guarded(job, self._heal)
        self._check_deliveries(idle)
        return len(overdue) == limit and bool(free)

    def _not_held_up(self, jobs: list[Overdue]) -> list[Overdue]:
        """Those of ``jobs`` whose rows no other transaction holds at this moment.

        A process that stands still in a transaction keeps its own job from being healed, but no other one:
        the next round looks again.
        """
        ids = [job.id for job in jobs]
        free = self._uow.read(lambda conn: self._lifecycle.unlocked(conn, ids)) if ids else set()
        if len(free) < len(jobs):
            self._telemetry.emit("upkeep.held_up", len(jobs) - len(free))
        return [job for job in jobs if job.id in free]

    def _guarded(self, job: Overdue, act: Callable[[Overdue], None]) -> None:
        """One job that cannot be healed must not keep the others from it."""
        try:
            act(job)
        except DatabaseUnavailable:
            raise
        except Exception as error:  # noqa: BLE001 - it is counted and in the log
            self._telemetry.emit("upkeep.failed", job_id=str(job.id), error=type(error).__name__)
            _log.exception("job %s could not be healed in this round", job.id)

    def _heal(self, job: Overdue) -> None:
        match remedy(job):
            case Remedy.TAKE_OVER:
                self._uow.run(lambda conn: self._take_over(conn, job), repeatable=True)
                point(Point.UPKEEP_AFTER_TAKE_OVER)
            case Remedy.END_FAILED:
                self._end(job, LifecycleStatus.FAILED)
            case Remedy.END_CANCELLED:
                self._end(job, LifecycleStatus.CANCELLED)
            case _:
                self._uow.run(lambda conn: self._later(conn, [job.id]), repeatable=True)

    def _take_over(self, conn: sa.Connection, job: Overdue) -> None:
        number = self._lifecycle.take_over(
            conn, Lease(job.id, job.epoch), look_after_ms=self._options.redelivery_ms
        )
        if number is not None:
            self._outbox.append(conn, [_delivery(job, number)])
            self._telemetry.emit("job.taken_over", job_id=str(job.id), epoch=job.epoch)

    def _end(self, job: Overdue, status: LifecycleStatus) -> None:
        def unit(conn: sa.Connection) -> None:
            failure = self._why(conn, job) if status is LifecycleStatus.FAILED else None
            if self._lifecycle.end_abandoned(conn, Lease(job.id, job.epoch), status, failure):
                code = failure.code if failure else None
                ended = EndedJob(job.id, job.job_type, job.queue_name, job.priority, code)
                self._endings.announce(conn, [ended], status)
                self._telemetry.emit(f"job.{status.value}", job_id=str(job.id), by="upkeep", code=code)

        self._uow.run(unit, repeatable=True)

    def _why(self, conn: sa.Connection, job: Overdue) -> Failure:
        """LEASE_LOST, and indeterminate where a call was in flight that must not be repeated (X16)."""
        definition = self._registry.find(job.job_type)
        repeatable = definition is not None and definition.execution.on_unknown_outcome == "retry"
        unknown = not repeatable and bool(self._usage.open_calls(conn, [job.id]))
        error = LeaseExhausted()
        outcome = Outcome.INDETERMINATE if unknown else Outcome.ERROR
        return Failure(error.code, error.public_message, str(error), (), outcome)

    # -------------------------------------------------------------- deliveries

    def _check_deliveries(self, jobs: Sequence[Overdue]) -> None:
        """Deliver again what neither the outbox nor Redis will deliver by itself."""
        if not jobs:
            return
        ids = [job.id for job in jobs]
        numbers = {job.id: job.delivery_no for job in jobs}
        coming = self._uow.read(lambda conn: queries.undelivered(conn, numbers))
        lost = [job for job in jobs if job.id not in coming]
        try:
            alive = self._transport.alive([(job.queue_name, job.job_type, job.id) for job in lost])
        except TransportError as error:
            # Without Redis there is nothing to compare with. They are looked at later: at the head of the
            # list they would keep ended leases from being seen.
            self._telemetry.emit("upkeep.transport_unavailable", code=error.code, reason=reason_of(error))
            alive = [True] * len(lost)
        gone = [job for job, lives in zip(lost, alive, strict=True) if not lives]
        rest = set(ids) - {job.id for job in gone}
        if rest:
            self._uow.run(lambda conn: self._later(conn, sorted(rest)), repeatable=True)
        for job in gone:
            self._guarded(job, self._deliver_again)

    def _deliver_again(self, job: Overdue) -> None:
        self._uow.run(lambda conn: self._redeliver(conn, job), repeatable=True)
        point(Point.UPKEEP_AFTER_REDELIVER)

    def _redeliver(self, conn: sa.Connection, job: Overdue) -> None:
        number = self._lifecycle.redeliver(
            conn, job.id, job.delivery_no, look_after_ms=self._options.redelivery_ms
        )
        if number is not None:
            self._outbox.append(conn, [_delivery(job, number)])
            self._telemetry.emit("job.redelivered", job_id=str(job.id), delivery_no=number)

    def _later(self, conn: sa.Connection, job_ids: Sequence[UUID]) -> None:
        self._lifecycle.look_later(conn, job_ids, look_after_ms=self._options.redelivery_ms)

    # -------------------------------------------------------------- the outbox, and retention

    def release_claims(self) -> bool:
        """Give events back whose dispatcher died."""
        ttl = self._options.claim_ttl_ms
        released = self._uow.run(lambda conn: self._outbox.release_expired(conn, ttl_ms=ttl), repeatable=True)
        if released:
            self._telemetry.emit("outbox.claims_released", released)
        return released >= 500

    def retire_deliveries(self) -> bool:
        """Dead deliveries that no job waits for need nobody: the job ended, or an earlier put did arrive."""
        retired = self._uow.run(
            lambda conn: self._outbox.retire(conn, views.awaited), repeatable=True
        )
        if retired:
            self._telemetry.emit("outbox.retired", retired)
        return retired >= 500

    def clean_up(self) -> bool:
        """Drop what has passed its time, a small batch of each kind."""
        days = {
            EventStatus.PUBLISHED: self._options.published_days,
            EventStatus.OBSOLETE: self._options.published_days,
            EventStatus.DISCARDED: self._options.dead_days,
            EventStatus.DEAD: self._options.dead_days,
        }
        counts = [self._prune(status, kept) for status, kept in days.items()]
        counts.append(self._uow.run(self._snapshots.purge_expired, repeatable=True))
        counts.append(self._uow.run(self._outputs.purge_expired, repeatable=True))
        counts.extend(chore() for chore in self._chores)
        return any(count >= 200 for count in counts)

    def _prune(self, status: EventStatus, days: int) -> int:
        return self._uow.run(
            lambda conn: self._outbox.prune(conn, status, older_ms=days * _DAY_MS), repeatable=True
        )


def _delivery(job: Overdue, number: int) -> NewEvent:
    return NewEvent(
        event_type=EventType.ENQUEUE,
        job_id=job.id,
        job_type=job.job_type,
        queue_name=job.queue_name,
        priority=job.priority,
        delivery_no=number,
        score_ms=int(max(job.created_at, job.available_at).timestamp() * 1000),
        traceparent=job.traceparent,
    )
