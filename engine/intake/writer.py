"""The create transaction: job, snapshot and outbox event, or nothing; one winner per key (design 7).

No constraint error is used as control flow and no savepoint is taken: an insert that does nothing for a
known digest, then a locking read of who holds it, which sees a rival's commit on every database (CI-1, PC-2).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import NamedTuple
from uuid import UUID

import sqlalchemy as sa

from engine.errors import IdempotencyConflictError
from engine.intake.admission import Admission
from engine.intake.commands import CreatedJob
from engine.intake.draft import Draft
from engine.lifecycle import views
from engine.lifecycle.births import Birth
from engine.lifecycle.repository import AiJobLifecycleRepository
from engine.lifecycle.snapshots import SnapshotRepository
from outbox.base.points import Point, point
from outbox.repository import OutboxRepository
from registry.job import LifecycleStatus

#: What gives the answers of a unit in the order of its drafts, once it was sent.
Answers = Callable[[], list[CreatedJob]]
#: What gives the rows that were inserted, once they were.
Births = Callable[[], list[Birth]]
#: Jobs by the digest of their key.
_Existing = dict[bytes | None, CreatedJob]


class _Unmade(NamedTuple):
    """What is to be made, and the failed jobs that give their keys up for it."""

    drafts: Sequence[Draft]
    renewed: Sequence[UUID]


class DraftWriter:
    """Writes drafts in the caller's transaction."""

    def __init__(
        self,
        *,
        lifecycle: AiJobLifecycleRepository,
        snapshots: SnapshotRepository,
        outbox: OutboxRepository,
        admission: Admission,
    ) -> None:
        self._lifecycle = lifecycle
        self._snapshots = snapshots
        self._outbox = outbox
        self._admission = admission

    def write(self, conn: sa.Connection, drafts: Sequence[Draft]) -> Answers:
        """Insert what is new and find what exists. Call what is returned once the transaction was sent.

        Jobs without keys need no answer of the database before that: on MariaDB they are one trip with COMMIT.
        """
        point(Point.CREATE_BEFORE_INSERT)
        fresh = self._unmade(conn, drafts)
        if fresh.drafts and not self._admission.is_off:
            fresh = self._admitted(conn, drafts, {d.job.user_id for d in fresh.drafts})
        made, births = self._insert(conn, fresh)
        self._snapshots.insert(conn, [(d.snapshot, d.snapshot_days) for d in made])
        self._outbox.append(conn, [d.event for d in made])
        existing = self._existing(conn, drafts, {d.job.id for d in made})
        point(Point.CREATE_BEFORE_COMMIT)
        return lambda: _answers(drafts, births(), existing)

    def _admitted(self, conn: sa.Connection, drafts: Sequence[Draft], users: Set[str]) -> _Unmade:
        counters = self._admission.lock(conn, users)
        # While we waited, whoever held the lock may have made these very jobs: they cost nothing then.
        fresh = self._unmade(conn, drafts, locking=True)
        self._admission.admit(conn, counters, [d.job for d in fresh.drafts])
        return fresh

    def landed(self, conn: sa.Connection, drafts: Sequence[Draft]) -> Answers | None:
        """After a COMMIT without an answer: the unit's result when it was stored, else None (CI-9)."""
        births = self._lifecycle.births(conn, [d.job.id for d in drafts])
        born = {row.id for row in births}
        unkeyed = [d for d in drafts if d.job.idempotency_digest is None]
        if not born or any(d.job.id not in born for d in unkeyed):
            return None
        existing = self._existing(conn, drafts, born)
        return lambda: _answers(drafts, births, existing)

    # -------------------------------------------------------------- keys

    def _unmade(self, conn: sa.Connection, drafts: Sequence[Draft], *, locking: bool = False) -> _Unmade:
        """What is to be made, after every conflict was refused; nothing is written."""
        keyed = {d.job.idempotency_digest: d for d in drafts if d.job.idempotency_digest is not None}
        if not keyed:
            return _Unmade(drafts, [])
        _refuse_conflicts_among(drafts)
        holders = self._lifecycle.holders(conn, list(keyed), locking=locking)
        for digest, holder in holders.items():
            _refuse_conflict(keyed[digest], holder)
        failed = {digest: holder for digest, holder in holders.items() if _gives_up(keyed[digest], holder)}
        known = holders.keys() - failed.keys()
        fresh = _first_of_each_key([d for d in drafts if d.job.idempotency_digest not in known])
        return _Unmade(fresh, [holder.id for holder in failed.values()])

    # -------------------------------------------------------------- inserting

    def _insert(self, conn: sa.Connection, fresh: _Unmade) -> tuple[Sequence[Draft], Births]:
        """Insert job rows: those that are made by it, without the ones that a rival was faster with."""
        if all(d.job.idempotency_digest is None for d in fresh.drafts):
            return fresh.drafts, self._lifecycle.insert_unkeyed(conn, [d.job for d in fresh.drafts])
        births = self._insert_keyed(conn, fresh)
        born = {row.id for row in births}
        return [d for d in fresh.drafts if d.job.id in born], lambda: births

    def _insert_keyed(self, conn: sa.Connection, fresh: _Unmade) -> list[Birth]:
        for failed in sorted(fresh.renewed):
            self._lifecycle.give_up_key(conn, failed)
        # In one order, so that two callers with the same keys cannot lock each other out.
        jobs = sorted((d.job for d in fresh.drafts), key=lambda job: job.idempotency_digest or b"")
        births = self._lifecycle.insert(conn, jobs)
        born = {row.id for row in births}
        losers = {
            d.job.idempotency_digest: d
            for d in fresh.drafts
            if d.job.idempotency_digest is not None and d.job.id not in born
        }
        if losers:
            self._refuse_lost_conflicts(conn, losers, born)
        return births

    def _refuse_lost_conflicts(self, conn: sa.Connection, losers: Mapping[bytes, Draft], born: Set[UUID]) -> None:
        """A rival was faster with some keys: fine with the same request, refused with another."""
        try:
            for digest, winner in self._lifecycle.holders(conn, list(losers), locking=True).items():
                _refuse_conflict(losers[digest], winner)
        except IdempotencyConflictError:
            # The caller may catch this and commit; no job may be left without its event.
            self._lifecycle.withdraw(conn, list(born))
            raise

    # -------------------------------------------------------------- answering

    def _existing(self, conn: sa.Connection, drafts: Sequence[Draft], made: Set[UUID]) -> _Existing:
        """The jobs that hold the keys of those ``drafts`` that were not ``made``."""
        digests = [
            d.job.idempotency_digest
            for d in drafts
            if d.job.idempotency_digest is not None and d.job.id not in made
        ]
        if not digests:
            return {}
        # Without a lock where that is enough: it would keep a running job from its heartbeats for as long as
        # the caller's transaction lasts. Only a snapshot older than the rival's commit needs one.
        found = self._look_up(conn, digests, locking=False)
        unseen = [digest for digest in digests if digest not in found]
        return found | (self._look_up(conn, unseen, locking=True) if unseen else {})

    def _look_up(self, conn: sa.Connection, digests: Sequence[bytes], *, locking: bool) -> _Existing:
        holders = self._lifecycle.holders(conn, digests, locking=locking)
        jobs = views.load(conn, [h.id for h in holders.values()], locking=locking)
        return {x: CreatedJob(jobs[h.id], created=False) for x, h in holders.items() if h.id in jobs}


def _answers(drafts: Sequence[Draft], births: Sequence[Birth], existing: _Existing) -> list[CreatedJob]:
    """In the order of ``drafts``."""
    born = {row.id: row for row in births}
    return [_answer(d, born.get(d.job.id), existing) for d in drafts]


def _answer(draft: Draft, birth: Birth | None, existing: _Existing) -> CreatedJob:
    if birth is None:
        return existing[draft.job.idempotency_digest]
    return CreatedJob(draft.view(birth.created_at, birth.available_at), created=True)


def _gives_up(wanted: Draft, holder: Birth) -> bool:
    return wanted.on_failed == "new" and holder.lifecycle_status == LifecycleStatus.FAILED


def _first_of_each_key(drafts: Sequence[Draft]) -> list[Draft]:
    """One key twice in one call makes one job."""
    firsts = {d.job.idempotency_digest or d.job.id.bytes: d for d in reversed(drafts)}
    return list(reversed(firsts.values()))


def _refuse_conflicts_among(drafts: Sequence[Draft]) -> None:
    seen: dict[bytes, bytes] = {}
    for job in (d.job for d in drafts if d.job.idempotency_digest is not None):
        first = seen.setdefault(job.idempotency_digest or b"", job.request_fingerprint)
        if first != job.request_fingerprint:
            raise _conflict()


def _refuse_conflict(wanted: Draft, holder: Birth) -> None:
    if holder.request_fingerprint != wanted.job.request_fingerprint:
        raise _conflict(holder.id)


def _conflict(holder: UUID | None = None) -> IdempotencyConflictError:
    return IdempotencyConflictError(
        "idempotency_key: already used for a request with another target, input or override",
        field="idempotency_key",
        job_id=holder,
    )
