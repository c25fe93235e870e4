"""Reading the outbox: for operators, and for whoever must know whether a delivery is on its way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from outbox.base.clock import DatabaseClock, moment
from outbox.events import EventType
from outbox.models import OUTBOX_EVENT
from outbox.states import EventStatus

_C = OUTBOX_EVENT.c

#: An event in one of these states has not been handed on; of a dead one the operator decides.
_UNDELIVERED = (EventStatus.PENDING.value, EventStatus.PROCESSING.value, EventStatus.DEAD.value)

#: Rows a list returns at most.
PAGE_LIMIT = 500


@dataclass(frozen=True, slots=True)
class EventView:
    """One outbox event as operators see it."""

    id: UUID
    event_type: str
    job_id: UUID
    job_type: str
    queue_name: str
    subscriber: str
    priority: int
    deliver_score: int
    delivery_no: int
    status: str
    attempt_count: int
    available_at: datetime
    locked_by: str | None
    locked_at: datetime | None
    created_at: datetime
    published_at: datetime | None
    last_error: str | None


_VIEW = sa.select(
    *(_C["aggregate_id"].label("job_id") if name == "job_id" else _C[name] for name in EventView.__dataclass_fields__)
)


def undelivered(conn: sa.Connection, deliveries: Mapping[UUID, int]) -> set[UUID]:
    """Those jobs of ``deliveries`` (job -> its present number) whose delivery waits, is under way, or is dead.

    An older delivery tells nothing, in whatever state it was left: no ticket comes from it that may be worked on.
    """
    if not deliveries:
        return set()
    query = sa.select(_C.aggregate_id, _C.delivery_no).where(
        _C.aggregate_id.in_(list(deliveries)), _C.event_type == EventType.ENQUEUE, _C.status.in_(_UNDELIVERED)
    )
    return {job_id for job_id, number in conn.execute(query) if number >= deliveries[job_id]}


def undelivered_jobs(conn: sa.Connection, *, limit: int) -> list[UUID]:
    """Jobs with a delivery that has not left the outbox, ``limit`` at most; by the index on the state."""
    query = sa.select(_C.aggregate_id).where(
        _C.status.in_(_UNDELIVERED), _C.event_type == EventType.ENQUEUE.value
    )
    return list(conn.execute(query.limit(limit)).scalars())


def find(conn: sa.Connection, event_id: UUID) -> EventView | None:
    """One event, or None."""
    row = conn.execute(_VIEW.where(_C.id == event_id)).first()
    return None if row is None else _view(row)


def of_job(conn: sa.Connection, job_id: UUID) -> list[EventView]:
    """Every event of a job, oldest first."""
    query = _VIEW.where(_C.aggregate_id == job_id).order_by(_C.created_at, _C.delivery_no, _C.id)
    return [_view(row) for row in conn.execute(query)]


def page(
    conn: sa.Connection,
    *,
    status: EventStatus | None = None,
    queue_name: str | None = None,
    before: UUID | None = None,
    limit: int = 50,
) -> list[EventView]:
    """Events, newest id first, below the id ``before``; at most ``PAGE_LIMIT``."""
    query = _VIEW.order_by(_C.id.desc()).limit(min(limit, PAGE_LIMIT))
    if status is not None:
        query = query.where(_C.status == status.value)
    if queue_name is not None:
        query = query.where(_C.queue_name == queue_name)
    if before is not None:
        query = query.where(_C.id < before)
    return [_view(row) for row in conn.execute(query)]


def counts(conn: sa.Connection, *, limit: int = 10_000) -> dict[str, int]:
    """Events by state, each counted up to ``limit`` by the index (OB-11)."""
    found = {}
    for status in EventStatus:
        bounded = sa.select(_C.id).where(_C.status == status.value).limit(limit).subquery()
        found[status.value] = int(conn.execute(sa.select(sa.func.count()).select_from(bounded)).scalar_one())
    return found


def oldest_due(conn: sa.Connection, clock: DatabaseClock) -> datetime | None:
    """When the longest waiting due event became due; None when nothing is due."""
    query = sa.select(sa.func.min(_C.available_at)).where(
        _C.status == EventStatus.PENDING.value, _C.available_at <= moment("now_us")
    )
    found: datetime | None = conn.execute(query, {"now_us": clock.us()}).scalar_one()
    return found


def unroutable(conn: sa.Connection, known: Sequence[str], *, limit: int = 10_000) -> int:
    """Pending events whose type no name in ``known`` stands for (OB-4)."""
    bounded = (
        sa.select(_C.id)
        .where(_C.status == EventStatus.PENDING.value, _C.event_type.not_in(list(known)))
        .limit(limit)
        .subquery()
    )
    return int(conn.execute(sa.select(sa.func.count()).select_from(bounded)).scalar_one())


def _view(row: Any) -> EventView:
    return EventView(**row._mapping)
