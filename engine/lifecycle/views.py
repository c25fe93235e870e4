"""Reading jobs. Nothing here locks or writes; every list is bounded and paged by id."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from engine.lifecycle.figures import few_open_ids
from engine.lifecycle.models import AI_JOB, AI_JOB_CLAIM, AI_JOB_OUTPUT
from outbox.base.clock import DatabaseClock, moment
from registry.job import JobView, LifecycleStatus, Outcome, WaitKind

_C = AI_JOB.c

#: Rows a list returns at most.
PAGE_LIMIT = 500

_VIEW = sa.select(
    *(_C[name] for name in JobView.__dataclass_fields__ if name != "output_hash"), AI_JOB_OUTPUT.c.output_hash
).select_from(AI_JOB.outerjoin(AI_JOB_OUTPUT, AI_JOB_OUTPUT.c.job_id == _C.id))

_ids = sa.bindparam("ids", expanding=True, type_=_C.id.type)
_BY_IDS = _VIEW.where(_C.id.in_(_ids))

_DUE = (
    sa.select(
        _C.id, _C.job_type, _C.queue_name, _C.priority, _C.lifecycle_status, _C.wait_kind, _C.epoch,
        _C.attempt_count, _C.max_attempts, _C.delivery_no, _C.created_at, _C.available_at, _C.traceparent,
        sa.case((_C.lock_until.is_(None), None), (_C.lock_until > moment("now_us"), sa.true()),
                else_=sa.false()).label("leased"),
        sa.case((_C.cancel_requested_at.is_(None), sa.false()), else_=sa.true()).label("cancelling"),
    )
    .where(_C.upkeep_at <= moment("now_us"))
    .order_by(_C.upkeep_at)
    .limit(sa.bindparam("limit"))
)  # fmt: skip

_CLAIMS = (
    sa.select(AI_JOB_CLAIM)
    .where(AI_JOB_CLAIM.c.job_id == sa.bindparam("job_id", type_=_C.id.type))
    .order_by(AI_JOB_CLAIM.c.epoch)
)


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs a list shows; None and empty mean no restriction."""

    statuses: Sequence[LifecycleStatus] = ()
    job_type: str | None = None
    queue_name: str | None = None
    user_id: str | None = None
    target_type: str | None = None
    target_id: str | None = None
    error_code: str | None = None
    created_from: datetime | None = None
    created_until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Overdue:
    """A job whose time for a look by upkeep has come."""

    id: UUID
    job_type: str
    queue_name: str
    priority: int
    lifecycle_status: str
    wait_kind: str | None
    epoch: int
    attempt_count: int
    max_attempts: int
    delivery_no: int
    created_at: datetime
    available_at: datetime
    traceparent: str | None
    #: None: no lease; True: a live one; False: an ended one.
    leased: bool | None
    cancelling: bool


@dataclass(frozen=True, slots=True)
class ClaimView:
    """One start of a job."""

    job_id: UUID
    epoch: int
    attempt_no: int
    start_reason: str
    worker: str
    started_at: datetime
    ended_at: datetime | None
    error_code: str | None
    errors: str | None


def load(conn: sa.Connection, job_ids: Sequence[UUID], *, locking: bool = False) -> dict[UUID, JobView]:
    """The jobs of ``job_ids`` that exist; ``locking`` sees commits that a caller's snapshot would hide."""
    if not job_ids:
        return {}
    query = _BY_IDS.with_for_update(of=AI_JOB) if locking else _BY_IDS
    return {row.id: _view(row) for row in conn.execute(query, {"ids": list(job_ids)})}


def find(conn: sa.Connection, job_id: UUID) -> JobView | None:
    """One job, or None."""
    return load(conn, [job_id]).get(job_id)


def page(
    conn: sa.Connection, wanted: JobFilter, *, before: UUID | None = None, limit: int = 50
) -> list[JobView]:
    """Jobs, newest id first, below the id ``before``; at most ``PAGE_LIMIT``."""
    conditions = [*_conditions(wanted), *_among_few(conn, wanted)]
    query = _VIEW.where(*conditions).order_by(_C.id.desc()).limit(min(limit, PAGE_LIMIT))
    if before is not None:
        query = query.where(_C.id < before)
    return [_view(row) for row in conn.execute(query)]


def count(
    conn: sa.Connection, wanted: JobFilter, *, limit: int = 10_000, locking: bool = False
) -> int:
    """How many jobs match, counted up to ``limit``; ``locking`` sees commits that a caller's snapshot would hide."""
    matching = sa.select(_C.id).where(*_conditions(wanted)).limit(limit)
    if locking:
        return len(conn.execute(matching.with_for_update(read=True)).all())
    matching = matching.where(*_among_few(conn, wanted))
    bounded = matching.subquery()
    return int(conn.execute(sa.select(sa.func.count()).select_from(bounded)).scalar_one())


def overdue(conn: sa.Connection, clock: DatabaseClock, *, limit: int) -> list[Overdue]:
    """Jobs upkeep should look at, the longest overdue first."""
    return [_overdue(row) for row in conn.execute(_DUE, {"now_us": clock.us(), "limit": limit})]


def awaited(
    job_id: sa.ColumnElement[UUID], delivery_no: sa.ColumnElement[int]
) -> sa.ColumnElement[bool]:
    """Whether an open job waits for the delivery that these columns of another table name."""
    return sa.exists().where(
        _C.id == job_id,
        _C.delivery_no == delivery_no,
        _C.lifecycle_status.in_([LifecycleStatus.QUEUED.value, LifecycleStatus.RUNNING.value]),
    )


def claims(conn: sa.Connection, job_id: UUID) -> list[ClaimView]:
    """Every start of a job, in order."""
    return [ClaimView(**row._mapping) for row in conn.execute(_CLAIMS, {"job_id": job_id})]


def _conditions(wanted: JobFilter) -> list[sa.ColumnElement[bool]]:
    equal = {name: getattr(wanted, name) for name in _EQUAL}
    found: list[sa.ColumnElement[bool]] = [
        _C[name] == value if name not in _ASCII or value.isascii() else sa.false()
        for name, value in equal.items()
        if value is not None
    ]
    if wanted.statuses:
        found.append(_C.lifecycle_status.in_([status.value for status in wanted.statuses]))
    if wanted.created_from is not None:
        found.append(_C.created_at >= wanted.created_from)
    if wanted.created_until is not None:
        found.append(_C.created_at < wanted.created_until)
    return found


def _among_few(conn: sa.Connection, wanted: JobFilter) -> list[sa.ColumnElement[bool]]:
    """Where open jobs are wanted and there are few: look among these, and not through all that ended."""
    if not wanted.statuses or not _OPEN.issuperset(wanted.statuses) or wanted.user_id is not None:
        return []
    ids = few_open_ids(conn)
    return [] if ids is None else [_C.id.in_(ids)]


def _overdue(row: Any) -> Overdue:
    return Overdue(*row)


#: Columns of ASCII, with which MariaDB compares nothing else: another text matches no row.
_ASCII = frozenset({"job_type", "queue_name", "error_code"})
_OPEN = frozenset({LifecycleStatus.QUEUED, LifecycleStatus.RUNNING})
_EQUAL = ("job_type", "queue_name", "user_id", "target_type", "target_id", "error_code")


def _view(row: Any) -> JobView:
    values = dict(row._mapping)
    digest = values.pop("output_hash")
    return JobView(
        **values
        | {
            "lifecycle_status": LifecycleStatus(values["lifecycle_status"]),
            "wait_kind": values["wait_kind"] and WaitKind(values["wait_kind"]),
            "outcome": values["outcome"] and Outcome(values["outcome"]),
            "output_hash": None if digest is None else bytes(digest).hex(),
        }
    )


