"""PREPARE: from deliveries to claimed jobs, a batch in one transaction.

A type this process does not know is deferred before anything is claimed (WL-16). What the database refuses
is sorted by reason: nothing to do, or later; none of it is an error (WL-9, OB-7).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

import sqlalchemy as sa

from engine.lifecycle import views
from engine.lifecycle.candidates import ClaimedJob
from engine.lifecycle.lease import Claim, Lease, Refusal
from engine.lifecycle.repository import AiJobLifecycleRepository
from engine.lifecycle.snapshots import SnapshotRepository
from engine.pipeline.work import History, Work
from outbox.base.db import UnitOfWork
from outbox.base.later import Shortfall, keeps
from outbox.base.telemetry import Telemetry
from outbox.transports.base import Delivery
from registry.job import StartReason
from registry.queues import QueueSpec
from registry.registry import JobDefinitionRegistry

#: How long a delivery waits that this process cannot run, or that has no row yet, in ms.
UNKNOWN_TYPE_MS = 5_000
MISSING_MS = 5_000
#: How often a delivery without a row is looked for before it is dropped (WL-9).
MISSING_LOOKS = 3
#: Deliveries that are too early come again after this, in ms; their own time is in the database.
NOT_DUE_MS = 1_000

#: Pauses before a row that another transaction holds is looked at again, in s: about as long as a COMMIT takes on a
#: quick disk at first, and together longer than on a slow one; a deferred delivery would wait for a second.
BUSY_PAUSES_S = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032)

#: Refusals after which the ticket has done its work.
_NOTHING_TO_DO = frozenset({Refusal.FINAL, Refusal.STALE, Refusal.WAITING, Refusal.EXHAUSTED})


@dataclass(slots=True)
class Prepared:
    """What became of a batch of deliveries."""

    claimed: list[Work] = field(default_factory=list)
    #: Tickets to take off the transport.
    settled: list[Delivery] = field(default_factory=list)
    #: Tickets to bring again, with the delay in ms.
    deferred: list[tuple[Delivery, int]] = field(default_factory=list)


class _Strange(Exception):
    """Tickets that name a known type for jobs of another one: nothing of their batch was claimed."""

    def __init__(self, job_ids: Sequence[UUID]) -> None:
        super().__init__()
        self.job_ids = job_ids


_FIRST = History()

_Claimed = tuple[Mapping[UUID, ClaimedJob | Refusal], Mapping[UUID, History]]


class Preparer:
    """Claims deliveries of one worker."""

    def __init__(
        self,
        *,
        registry: JobDefinitionRegistry,
        uow: UnitOfWork,
        lifecycle: AiJobLifecycleRepository,
        snapshots: SnapshotRepository,
        telemetry: Telemetry,
        worker: str,
        in_hand: Callable[[Lease], bool],
    ) -> None:
        """``in_hand`` tells whether a lease is already being worked on in this process."""
        self._registry = registry
        self._uow = uow
        self._lifecycle = lifecycle
        self._snapshots = snapshots
        self._telemetry = telemetry
        self._worker = worker
        self._in_hand = in_hand

    def prepare(self, queue: QueueSpec, deliveries: Sequence[Delivery]) -> Prepared:
        """Claim what may run. Raises a :class:`~outbox.base.errors.DatabaseError`: nothing was claimed."""
        result = Prepared()
        known = {d.ticket.job_id: d for d in deliveries if self._knows(d, result)}
        if not known:
            return result
        numbers = {job_id: d.ticket.delivery_no for job_id, d in known.items()}
        answers, histories = self._claim_lone(queue, known) or self._claim_patiently(queue, numbers)
        for job_id, answer in answers.items():
            delivery = known[job_id]
            if isinstance(answer, ClaimedJob):
                result.claimed.append(
                    Work(
                        job=answer.job, claim=answer.claim, delivery=delivery, queue=queue,
                        definition=self._registry.get(answer.job.job_type), snapshot=answer.snapshot,
                        history=histories.get(job_id, _FIRST),
                    )
                )  # fmt: skip
            else:
                self._sort(delivery, answer, queue, result)
        self._tell_waits(queue, result.claimed)
        return result

    def _tell_waits(self, queue: QueueSpec, claimed: Sequence[Work]) -> None:
        """How long jobs had waited when they were claimed for the first time; one fact for a batch."""
        waited = {
            work.job.id: (work.job.started_at - work.job.created_at) // timedelta(milliseconds=1)
            for work in claimed
            if work.claim.start_reason is StartReason.FIRST and work.job.started_at is not None
        }
        if waited:
            about = {"job_id": str(next(iter(waited)))} if len(waited) == 1 else {}
            times = list(waited.values())
            self._telemetry.emit("job.started", len(times), queue=queue.name, waited_ms=times, **about)

    def _knows(self, delivery: Delivery, result: Prepared) -> bool:
        if self._registry.find(delivery.ticket.job_type) is not None:
            return True
        ticket = delivery.ticket
        self._telemetry.emit("job.type_unknown", job_id=str(ticket.job_id), job_type=ticket.job_type)
        result.deferred.append((delivery, UNKNOWN_TYPE_MS))
        return False

    def _sort(
        self, delivery: Delivery, refusal: Refusal, queue: QueueSpec, result: Prepared
    ) -> None:
        self._telemetry.emit(f"delivery.{refusal.value}", job_id=str(delivery.ticket.job_id))
        if refusal in _NOTHING_TO_DO or (
            refusal is Refusal.MISSING and delivery.handout >= MISSING_LOOKS
        ):
            result.settled.append(delivery)
        elif refusal is Refusal.LEASED:
            # Somebody holds it; should they be lost, their lease ends within this time.
            result.deferred.append((delivery, queue.lease_ms))
        else:
            result.deferred.append(
                (delivery, MISSING_MS if refusal is Refusal.MISSING else NOT_DUE_MS)
            )

    # -------------------------------------------------------------- the transaction

    def _claim_lone(self, queue: QueueSpec, known: Mapping[UUID, Delivery]) -> _Claimed | None:
        """The usual delivery where there is little to do: alone, the first one of a job that has just been created.

        None where it is not that, and where it has turned out not to be.
        """
        if len(known) > 1 or not keeps(self._uow.engine.dialect):
            return None
        [(job_id, delivery)] = known.items()
        number, job_type = delivery.ticket.delivery_no, delivery.ticket.job_type
        if number > 1 or delivery.handout > 1:
            return None
        try:
            job = self._uow.run(
                lambda conn: self._lifecycle.claim_untouched(
                    conn, job_id, job_type=job_type, worker=self._worker, lease_ms=queue.lease_ms
                ),
                landed=lambda conn: self._landed_lone(conn, job_id),
            )
        except Shortfall:
            return None
        return {job_id: job()}, {}

    def _landed_lone(self, conn: sa.Connection, job_id: UUID) -> Callable[[], ClaimedJob] | None:
        answers, _ = self._landed(conn, {job_id: 1}) or ({}, {})
        found = answers.get(job_id)
        return (lambda: found) if isinstance(found, ClaimedJob) else None

    def _claim_patiently(self, queue: QueueSpec, numbers: Mapping[UUID, int]) -> _Claimed:
        """Claim, and look again at rows that somebody held: mostly the dispatcher, marking this very delivery."""
        answers, histories = self._claim_once(queue, numbers)
        for pause_s in BUSY_PAUSES_S:
            busy = {
                job_id: numbers[job_id]
                for job_id, answer in answers.items()
                if answer is Refusal.BUSY
            }
            if not busy:
                break
            time.sleep(pause_s)
            later, told = self._claim_once(queue, busy)
            answers, histories = {**answers, **later}, {**histories, **told}
        return answers, histories

    def _claim_once(self, queue: QueueSpec, numbers: Mapping[UUID, int]) -> _Claimed:
        try:
            return self._uow.run(
                lambda conn: self._claim(conn, queue, numbers),
                landed=lambda conn: self._landed(conn, numbers),
            )
        except _Strange as error:
            rest = {
                job_id: number for job_id, number in numbers.items() if job_id not in error.job_ids
            }
            answers, histories = self._claim_once(queue, rest) if rest else ({}, {})
            return {**answers, **dict.fromkeys(error.job_ids, Refusal.MISSING)}, histories

    def _claim(
        self, conn: sa.Connection, queue: QueueSpec, numbers: Mapping[UUID, int]
    ) -> _Claimed:
        answers = self._lifecycle.claim(
            conn, numbers, worker=self._worker, lease_ms=queue.lease_ms
        )
        strange = [
            job_id
            for job_id, answer in answers.items()
            if isinstance(answer, ClaimedJob) and self._registry.find(answer.job.job_type) is None
        ]
        if strange:
            raise _Strange(strange)
        return answers, _histories(conn, answers)

    def _landed(self, conn: sa.Connection, numbers: Mapping[UUID, int]) -> _Claimed | None:
        """After a COMMIT without an answer: the claims, when they are stored (CI-9)."""
        held = {
            job.id: job
            for job in views.load(conn, list(numbers)).values()
            if job.locked_by == self._worker and not self._in_hand(Lease(job.id, job.epoch))
        }
        if not held:
            return None
        snapshots = self._snapshots.load(conn, list(held))
        answers: dict[UUID, ClaimedJob | Refusal] = dict.fromkeys(numbers, Refusal.LEASED)
        for job in held.values():
            claim = Claim(Lease(job.id, job.epoch), job.attempt_count, _last_reason(conn, job.id))
            answers[job.id] = ClaimedJob(claim, job, snapshots.get(job.id))
        return answers, _histories(conn, answers)


def _histories(
    conn: sa.Connection, answers: Mapping[UUID, ClaimedJob | Refusal]
) -> dict[UUID, History]:
    """What earlier claims left to know; a first claim, the usual one, has none."""
    repeated = [
        id_ for id_, a in answers.items() if isinstance(a, ClaimedJob) and a.claim.lease.epoch > 1
    ]
    return {job_id: _history(conn, job_id) for job_id in repeated}


def _history(conn: sa.Connection, job_id: UUID) -> History:
    earlier = views.claims(conn, job_id)[:-1]
    told = json.loads(earlier[-1].errors) if earlier and earlier[-1].errors else ()
    return History(tuple(c.error_code for c in earlier if c.error_code), tuple(told))


def _last_reason(conn: sa.Connection, job_id: UUID) -> StartReason:
    return StartReason(views.claims(conn, job_id)[-1].start_reason)
