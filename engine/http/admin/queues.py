"""Queues as operators see them: how much waits, since when, who paused what; pause and resume."""

from __future__ import annotations

from typing import Annotated, Any

import sqlalchemy as sa
from fastapi import APIRouter, Depends, Path, Response
from pydantic import Field

from engine.http.admin.acts import Operator
from engine.http.admin.jobs import Reason, shown
from engine.http.bodies import JSON_NUMBER, Body, Instant, Order, Reason255
from engine.http.edge import Edge
from engine.http.errors import QueueNotFound, QueueNotPaused
from engine.http.problem import problem_responses
from engine.lifecycle.figures import open_jobs
from engine.lifecycle.queues import QueuePause
from outbox.errors import TransportError
from outbox.figures import waiting
from registry.job import LifecycleStatus
from registry.queues import QueueSpec

QueueName = Annotated[str, Path(pattern=r"^[a-z][a-z0-9-]{0,31}$")]


class Pause(Body):
    """Who paused the queue, why, since when, and until when (absent: until it is resumed)."""

    paused_by: str
    reason: str
    paused_at: Instant
    paused_until: Instant | None = None


class Queue(Body):
    """One queue. ``depth`` counts tickets at Redis; absent while Redis is away. Ages are of created jobs."""

    name: str
    concurrency: int
    lease_ms: int
    heartbeat_ms: int
    depth: int | None = None
    queued: int
    running: int
    parked: int
    oldest_age_seconds: float
    pause: Pause | None = None


class Queues(Body):
    """Every configured queue."""

    items: list[Queue]


class PauseOrder(Order):
    """Why, and for how long (absent: until it is resumed)."""

    reason: Reason255
    for_seconds: Annotated[int, Field(ge=1, le=31_536_000), JSON_NUMBER] | None = None


def queues_routes(router: APIRouter, edge: Edge, operator: Any) -> None:
    """Add the routes to ``router``."""

    @router.get("/queues", response_model=Queues)
    def list_queues(who: Operator = Depends(operator)) -> Response:
        """Every queue: what waits, runs and is parked, and whether it is paused."""
        return shown(Queues(items=queues_now(edge)))

    @router.post("/queues/{name}/pause", response_model=Pause)
    def pause_queue(
        name: QueueName, order: PauseOrder, who: Operator = Depends(operator)
    ) -> Response:
        """Hand out no more jobs of a queue; what runs goes on, new jobs are taken in."""
        _known(edge, name)
        for_ms = None if order.for_seconds is None else order.for_seconds * 1000

        def unit(conn: sa.Connection) -> QueuePause:
            edge.queues.pause(
                conn, name, by=who.principal.subject, reason=order.reason, for_ms=for_ms
            )
            return edge.queues.paused(conn)[name]

        paused = who.do("queue.pause", "queue", name, unit, reason=order.reason)
        return shown(_pause(paused))

    @router.post("/queues/{name}/resume", status_code=204, responses=problem_responses(409))
    def resume_queue(
        name: QueueName, body: Reason | None = None, who: Operator = Depends(operator)
    ) -> Response:
        """Hand out jobs of a queue again."""
        _known(edge, name)

        def unit(conn: sa.Connection) -> None:
            if not edge.queues.resume(conn, name):
                raise QueueNotPaused

        who.do("queue.resume", "queue", name, unit, reason=body.reason if body else None)
        return Response(status_code=204)


def _known(edge: Edge, name: str) -> None:
    if name not in {queue.name for queue in edge.app.registry.queues}:
        raise QueueNotFound


def _pause(pause: QueuePause) -> Pause:
    return Pause.model_validate(pause, from_attributes=True)


def queues_now(edge: Edge) -> list[Queue]:
    """Every configured queue as it stands; also what the metrics say."""
    specs = edge.app.registry.queues
    try:
        depths: dict[str, int] | None = edge.app.transport.depth([spec.name for spec in specs])
    except TransportError:
        depths = None
    return edge.app.uow.read(lambda conn: [_queue(conn, edge, s, depths) for s in specs])


def _queue(
    conn: sa.Connection, edge: Edge, spec: QueueSpec, depths: dict[str, int] | None
) -> Queue:
    now, pauses = edge.app.clock.read(conn), edge.queues.paused(conn)
    events = waiting(conn).get(spec.name)
    mine = [jobs for jobs in open_jobs(conn) if jobs.queue_name == spec.name]
    queued = [jobs for jobs in mine if jobs.status is LifecycleStatus.QUEUED]
    since = [jobs.oldest for jobs in queued] + ([events.since] if events else [])
    return Queue(
        name=spec.name,
        concurrency=spec.concurrency,
        lease_ms=spec.lease_ms,
        heartbeat_ms=spec.heartbeat_ms,
        depth=None if depths is None else depths.get(spec.name, 0),
        queued=sum(jobs.count for jobs in queued) + (events.count if events else 0),
        running=sum(
            j.count for j in mine if j.status is LifecycleStatus.RUNNING and j.wait_kind is None
        ),
        parked=sum(jobs.count for jobs in mine if jobs.wait_kind is not None),
        oldest_age_seconds=max([0.0, *((now - moment).total_seconds() for moment in since)]),
        pause=_pause(pauses[spec.name]) if spec.name in pauses else None,
    )
