"""The rows a claim looks at, read once: what decides, what the worker is told, and the stored input.

One locking SELECT before the move instead of three reads around it. It also tells the database's time, which the
move then writes, so that everything about the row after it is known without another look.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import sqlalchemy as sa

from engine.lifecycle.claims import Candidate
from engine.lifecycle.lease import Claim, Refusal
from engine.lifecycle.models import AI_JOB, AI_JOB_SNAPSHOT
from engine.lifecycle.snapshots import Snapshot
from outbox.base.clock import DatabaseClock, moment
from outbox.base.keyed import Keyed, one_of
from registry.job import JobView, LifecycleStatus

_C, _S = AI_JOB.c, AI_JOB_SNAPSHOT.c

#: In the order of Candidate's fields.
_DECIDING = (
    _C.id, _C.lifecycle_status, _C.wait_kind, _C.epoch, _C.attempt_count, _C.max_attempts,
    _C.start_reason, _C.delivery_no,
    sa.case((_C.lock_until.is_(None), None), (_C.lock_until > moment("now_us"), sa.true()),
            else_=sa.false()).label("leased"),
    sa.case((_C.available_at <= moment("now_us"), sa.true()), else_=sa.false()).label("due"),
)  # fmt: skip

#: What else a view shows and a claim leaves as it is. An open job has no outcome, output, error or end.
_KEPT = (
    _C.user_id, _C.job_type, _C.target_type, _C.target_id, _C.queue_name, _C.priority, _C.progress_note,
    _C.idempotency_key, _C.credential_mode, _C.credential_id, _C.prompt_version, _C.schema_version,
    _C.output_schema_version, _C.retry_of_job_id, _C.cancel_requested_at, _C.available_at, _C.created_at,
)  # fmt: skip

#: In the order of Snapshot's fields after the job's id.
_INPUT = (_S.content, _S.content_hash, _S.schema_version, _S.redaction_version)

#: When the row was looked at, and when the job began for the first time.
_TIMES = (moment("now_us").label("now"), _C.started_at)

_FIRST_KEPT = len(_DECIDING)
_FIRST_INPUT = _FIRST_KEPT + len(_KEPT)
_FIRST_TIME = _FIRST_INPUT + len(_INPUT)

_CANDIDATES = Keyed(
    sa.select(*_DECIDING, *_KEPT, *_INPUT, *_TIMES)
    .select_from(AI_JOB.outerjoin(AI_JOB_SNAPSHOT, _S.job_id == _C.id))
    .where(one_of(_C.id))
    # Two claimers of one batch lock in the same order; a row that somebody else holds up costs the rest nothing.
    .order_by(_C.id)
    .with_for_update(of=AI_JOB, skip_locked=True)
)

_PRESENT = Keyed(sa.select(_C.id).where(one_of(_C.id)))

#: The row after it was taken unseen, with the times that were written.
_TAKEN = Keyed(
    sa.select(*_DECIDING, *_KEPT, *_INPUT, _C.started_at, _C.lock_until)
    .select_from(AI_JOB.outerjoin(AI_JOB_SNAPSHOT, _S.job_id == _C.id))
    .where(one_of(_C.id))
)


class ClaimedJob(NamedTuple):
    """A job that has just been claimed, with its input (None where the snapshot is missing)."""

    claim: Claim
    job: JobView
    snapshot: Snapshot | None


class Found(NamedTuple):
    """A locked row, and when the database looked at it."""

    candidate: Candidate
    row: Sequence[Any]
    now: datetime


def lock(conn: sa.Connection, job_ids: Sequence[UUID], clock: DatabaseClock) -> list[Found]:
    """Lock and read those of ``job_ids`` that exist and that nobody else has locked."""
    rows = _CANDIDATES.fetch(conn, job_ids, now_us=clock.us()) if job_ids else []
    return [Found(Candidate._make(row[:_FIRST_KEPT]), row, row[_FIRST_TIME]) for row in rows]


def held_up(conn: sa.Connection, job_ids: Sequence[UUID]) -> dict[UUID, Refusal]:
    """Those of ``job_ids`` that exist: where no row could be locked, another transaction holds it at this moment."""
    return {row[0]: Refusal.BUSY for row in _PRESENT.fetch(conn, job_ids)} if job_ids else {}


def claimed(found: Found, claim: Claim, worker: str, at: datetime, lease: timedelta) -> ClaimedJob:
    """The job as it is after ``claim``, which ``worker`` makes in this transaction ``at`` the time of the look."""
    started_at = found.row[_FIRST_TIME + 1] or at
    return ClaimedJob(claim, _view(claim, found, worker, started_at, at + lease), _snapshot(found))


def taken(conn: sa.Connection, claim: Claim, worker: str, clock: DatabaseClock) -> Callable[[], ClaimedJob]:
    """Read the job that ``worker`` took by ``claim`` in this transaction; call what is returned once that was sent."""
    rows = _TAKEN.fetch_later(conn, [claim.lease.job_id], expect=1, now_us=clock.us())

    def read() -> ClaimedJob:
        [row] = rows()
        started_at, lock_until = row[_FIRST_TIME:]
        found = Found(Candidate._make(row[:_FIRST_KEPT]), row, started_at)
        return ClaimedJob(claim, _view(claim, found, worker, started_at, lock_until), _snapshot(found))

    return read


def _view(claim: Claim, found: Found, worker: str, started_at: datetime, lock_until: datetime) -> JobView:
    (
        user_id, job_type, target_type, target_id, queue_name, priority, note, key, mode, credential_id,
        prompt_version, schema_version, output_version, retry_of, cancel_at, available_at, created_at,
    ) = found.row[_FIRST_KEPT:_FIRST_INPUT]  # fmt: skip
    return JobView(
        id=claim.lease.job_id, user_id=user_id, job_type=job_type, target_type=target_type, target_id=target_id,
        queue_name=queue_name, priority=priority, lifecycle_status=LifecycleStatus.RUNNING, wait_kind=None,
        outcome=None, progress=0, progress_note=note, attempt_count=claim.attempt_no,
        max_attempts=found.candidate.max_attempts, epoch=claim.lease.epoch, delivery_no=found.candidate.delivery_no,
        idempotency_key=key, credential_mode=mode, credential_id=credential_id, prompt_version=prompt_version,
        schema_version=schema_version, output_schema_version=output_version, output_hash=None, error_code=None,
        public_error_message=None, internal_error_message=None, retry_of_job_id=retry_of,
        cancel_requested_at=cancel_at, available_at=available_at, created_at=created_at, started_at=started_at,
        finished_at=None, lock_until=lock_until, locked_by=worker,
    )  # fmt: skip


def _snapshot(found: Found) -> Snapshot | None:
    content, digest, schema_version, redaction_version = found.row[_FIRST_INPUT:_FIRST_TIME]
    if digest is None:
        return None
    content = None if content is None else bytes(content)
    return Snapshot(found.candidate.id, content, bytes(digest), schema_version, redaction_version)
