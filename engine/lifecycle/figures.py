"""How many jobs are open, and since when: for operators and metrics. Reads open jobs alone, by upkeep's index."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import sqlalchemy as sa

from engine.lifecycle.models import AI_JOB
from outbox import queries
from outbox.figures import Waiting
from registry.job import LifecycleStatus, WaitKind

_C = AI_JOB.c

_OPEN = (
    sa.select(
        _C.queue_name,
        _C.lifecycle_status,
        _C.wait_kind,
        sa.func.count().label("jobs"),
        sa.func.min(_C.created_at).label("oldest"),
    )
    # Every delivered job that has not ended has one; jobs whose first delivery is still in the outbox are
    # counted there.
    .where(_C.upkeep_at.is_not(None))
    .group_by(_C.queue_name, _C.lifecycle_status, _C.wait_kind)
)


@dataclass(frozen=True, slots=True)
class OpenJobs:
    """Delivered jobs of one queue and state that have not ended; ``oldest`` is when the first was created."""

    queue_name: str
    status: LifecycleStatus
    wait_kind: WaitKind | None
    count: int
    oldest: datetime


def few_open_ids(conn: sa.Connection, *, limit: int = 1_000) -> list[UUID] | None:
    """The ids of all jobs that have not ended; None where there are more than ``limit``, or nearly so.

    A list of open jobs would otherwise walk over every job that ever ended, since no index holds the state: each
    job would pay for one. The outbox is read first: what leaves it meanwhile has an ``upkeep_at`` by then.
    """
    ids = queries.undelivered_jobs(conn, limit=limit + 1)
    delivered = sa.select(_C.id).where(_C.upkeep_at.is_not(None)).limit(limit + 1)
    ids += conn.execute(delivered).scalars()
    return None if len(ids) > limit else ids


def open_jobs(conn: sa.Connection) -> list[OpenJobs]:
    """Open jobs that were delivered at least once, by queue, state and wait."""
    return [
        OpenJobs(
            queue_name=row.queue_name,
            status=LifecycleStatus(row.lifecycle_status),
            wait_kind=row.wait_kind and WaitKind(row.wait_kind),
            count=row.jobs,
            oldest=row.oldest,
        )
        for row in conn.execute(_OPEN)
    ]


def waiting_since(conn: sa.Connection, undelivered: Mapping[str, Waiting]) -> dict[str, datetime]:
    """Since when the oldest job of each queue waits for its start, UTC; queues without any are left out.

    ``undelivered`` is what the outbox still holds (:func:`outbox.figures.waiting`).
    """
    since = {name: found.since for name, found in undelivered.items()}
    for jobs in open_jobs(conn):
        if jobs.status is LifecycleStatus.QUEUED:
            since[jobs.queue_name] = min(jobs.oldest, since.get(jobs.queue_name, jobs.oldest))
    return since
