"""The outbox as operators see it: counts, events, and what may be done with a dead one."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from uuid import UUID

import sqlalchemy as sa
from fastapi import APIRouter, Depends, Path, Query, Response

from engine.errors import DispatchDiscarded
from engine.http.admin.acts import Operator
from engine.http.admin.filters import Before, Limit
from engine.http.admin.jobs import Reason, shown
from engine.http.bodies import ASCII, Body, Instant, Order, Reason255
from engine.http.edge import Edge
from engine.http.problem import problem_responses
from engine.lifecycle.audit import Act
from engine.upkeep.operations import Effect, Operation
from outbox import queries
from outbox.events import EventType
from outbox.states import EventStatus
from registry.errors import AiJobsError

EventId = Annotated[UUID, Path(description="The event's id.")]
#: What a discarded event may have done to its job, as a fact.
_ENDS = {Effect.JOB_FAILED: "job.failed", Effect.JOB_CANCELLED: "job.cancelled"}
EventState = Literal["pending", "processing", "published", "dead", "obsolete", "discarded"]


class OutboxCounts(Body):
    """Events by state, each counted up to 10 000; how long the oldest due one waits; types nobody here knows."""

    counts: dict[str, int]
    oldest_pending_age_seconds: float
    unroutable: int


class Event(Body):
    """One outbox event."""

    id: UUID
    event_type: str
    job_id: UUID
    job_type: str
    queue_name: str
    subscriber: str
    priority: int
    delivery_no: int
    status: str
    attempt_count: int
    available_at: Instant
    locked_by: str | None = None
    locked_at: Instant | None = None
    created_at: Instant
    published_at: Instant | None = None
    last_error: str | None = None


class EventPage(Body):
    """A page of events, newest first."""

    items: list[Event]
    next: UUID | None = None


class Discard(Order):
    """Why an event is given up; its job fails with this."""

    reason: Reason255


class Done(Body):
    """What was done to which event and job."""

    event_id: UUID
    job_id: UUID
    effect: str
    delivery_no: int | None = None


def outbox_routes(router: APIRouter, edge: Edge, operator: Any) -> None:
    """Add the routes to ``router``."""
    _read_routes(router, edge, operator)
    _act_routes(router, edge, operator)


def _read_routes(router: APIRouter, edge: Edge, operator: Any) -> None:
    app = edge.app

    @router.get("/outbox", response_model=OutboxCounts)
    def count_events(who: Operator = Depends(operator)) -> Response:
        """How the outbox stands."""
        return shown(app.uow.read(lambda conn: outbox_counts(conn, edge)))

    @router.get("/outbox/events", response_model=EventPage)
    def list_events(
        status: EventState | None = None,
        queue_name: Annotated[
            str | None, Query(alias="queueName", max_length=32, pattern=ASCII)
        ] = None,
        before: Before = None,
        limit: Limit = 50,
        who: Operator = Depends(operator),
    ) -> Response:
        """Events that match, newest first, page by page."""
        wanted = None if status is None else EventStatus(status)
        found = app.uow.read(
            lambda conn: queries.page(
                conn, status=wanted, queue_name=queue_name, before=before, limit=limit
            )
        )
        items = [Event.model_validate(event, from_attributes=True) for event in found]
        return shown(EventPage(items=items, next=found[-1].id if len(found) == limit else None))


def _act_routes(router: APIRouter, edge: Edge, operator: Any) -> None:
    operate = edge.app.operations

    @router.post(
        "/outbox/events/{event_id}/redeliver", response_model=Done, responses=problem_responses(409)
    )
    def redeliver_event(
        event_id: EventId, body: Reason | None = None, who: Operator = Depends(operator)
    ) -> Response:
        """Hand an event on once more; harmless, since a job starts only once."""
        reason = body.reason if body else None
        try:
            done = operate.redeliver(event_id, by=who.by, reason=reason)
        except AiJobsError as error:
            _refused(who, "outbox.redeliver", event_id, reason, error)
            raise
        edge.app.wake.send(queue.name for queue in edge.app.registry.queues)
        return shown(_done(done))

    @router.post(
        "/outbox/events/{event_id}/discard", response_model=Done, responses=problem_responses(409)
    )
    def discard_event(
        event_id: EventId, body: Discard, who: Operator = Depends(operator)
    ) -> Response:
        """Give a dead event up; the job that depends on it fails with DISPATCH_DISCARDED."""
        try:
            done = operate.discard(event_id, by=who.by, reason=body.reason)
        except AiJobsError as error:
            _refused(who, "outbox.discard", event_id, body.reason, error)
            raise
        if done.effect in _ENDS:
            edge.app.telemetry.emit(
                _ENDS[done.effect],
                job_id=str(done.job_id),
                by="operator",
                code=DispatchDiscarded.code,
            )
        return shown(_done(done))


def _refused(
    who: Operator, verb: str, event_id: UUID, reason: str | None, error: AiJobsError
) -> None:
    who.refused(
        Act(
            actor=who.principal.subject, edge="http", verb=verb, object_type="outbox_event",
            object_id=str(event_id), reason=reason, result=error.code, request_id=who.request,
        )
    )  # fmt: skip


def _done(done: Operation) -> Done:
    return Done(
        event_id=done.event_id,
        job_id=done.job_id,
        effect=done.effect.value,
        delivery_no=done.delivery_no,
    )


def outbox_counts(conn: sa.Connection, edge: Edge) -> OutboxCounts:
    """How the outbox stands; also what the metrics say."""
    now, oldest = edge.app.clock.read(conn), queries.oldest_due(conn, edge.app.clock)
    age = 0.0 if oldest is None else max(0.0, (now - oldest).total_seconds())
    return OutboxCounts(
        counts=queries.counts(conn),
        oldest_pending_age_seconds=age,
        unroutable=queries.unroutable(conn, [event.value for event in EventType]),
    )
