"""The job API for users: read, wait, cancel, follow (ADR-003 7)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final
from uuid import UUID

import sqlalchemy as sa
from fastapi import APIRouter, Depends, Header, Path, Response

from engine.errors import JobNotFoundError
from engine.http.auth import ADMIN, SUPER_ADMIN, USER, Principal
from engine.http.bodies import JobStatus, job_status
from engine.http.edge import Edge
from engine.http.errors import OutputNotStored
from engine.http.events import follow_route
from engine.http.problem import problem_responses
from engine.http.routes import ProblemRoute
from engine.lifecycle import views
from outbox.base.canonical import canonical_bytes
from projectors import artifacts
from registry.job import JobView, LifecycleStatus

#: Longest time a request may be held open for a change, in seconds.
MAX_WAIT_S: Final = 60

_WAIT: Final = re.compile(r"(?:^|[,;\s])wait\s*=\s*\"?(\d{1,6})\"?", re.IGNORECASE)

JobId = Annotated[UUID, Path(description="The job's id.")]
Prefer = Annotated[
    str | None, Header(description="`wait=N` holds the request for up to N seconds, 60 at most.")
]
Known = Annotated[str | None, Header(alias="If-None-Match")]
#: Gives a job the caller may see.
Owned = Callable[..., Awaitable[JobView]]


def job_router(edge: Edge) -> APIRouter:
    """``/jobs/{job_id}`` and below; mount it under ``/api/ai``."""
    router = APIRouter(
        route_class=ProblemRoute,
        tags=["jobs"],
        responses=problem_responses(401, 403, 404, 422, 429, 503),
    )
    owned = owned_by_caller(edge)
    _read_route(router, edge, owned)
    _cancel_route(router, edge)
    _output_route(router, edge, owned)
    follow_route(router, edge, owned)
    return router


def owned_by_caller(edge: Edge) -> Owned:
    """The dependency for a job the caller may see: its own, or any for an operator. Another's does not exist."""

    async def owned(job_id: JobId, principal: Principal = edge.gate.need(USER)) -> JobView:
        job = await edge.read(lambda conn: views.find(conn, job_id))
        if job is None or not (job.user_id == principal.subject or principal.may(ADMIN)):
            raise JobNotFoundError
        return job

    return owned


def _read_route(router: APIRouter, edge: Edge, owned: Owned) -> None:
    @router.get(
        "/jobs/{job_id}",
        response_model=JobStatus,
        responses={304: {"description": "Not changed since the ETag given."}},
    )
    async def read_job(
        job: JobView = Depends(owned), prefer: Prefer = None, known: Known = None
    ) -> Response:
        """The job's state. `Prefer: wait=N` waits for its end, or with `If-None-Match` for a change."""
        wait_s = _wanted_wait(prefer)
        shown = await _show(edge, job)
        if wait_s and not job.is_final:
            job, shown = await _waited(edge, job, shown, known, wait_s)
        return _answer(job, shown, known, wait_s)


def _cancel_route(router: APIRouter, edge: Edge) -> None:
    @router.post(
        "/jobs/{job_id}/cancel",
        response_model=JobStatus,
        responses={
            202: {"model": JobStatus, "description": "Asked; its worker will stop it."},
            **problem_responses(409),
        },
    )
    def cancel_job(job_id: JobId, principal: Principal = edge.gate.need(USER)) -> Response:
        """Cancel one's own job: 200 when it is cancelled, 202 when its worker was asked to stop."""
        job = edge.app.jobs.request_cancel(job_id, user_id=principal.subject)
        done = job.lifecycle_status is LifecycleStatus.CANCELLED
        return Response(
            job_status(job).to_bytes(), 200 if done else 202, media_type="application/json"
        )


def _output_route(router: APIRouter, edge: Edge, owned: Owned) -> None:
    @router.get("/jobs/{job_id}/output", response_class=Response, responses=_ANY_JSON)
    async def read_output(
        job: JobView = Depends(owned), principal: Principal = edge.gate.need(USER)
    ) -> Response:
        """The stored output of one's own job, as canonical JSON."""
        if job.user_id != principal.subject and not principal.may(SUPER_ADMIN):
            raise JobNotFoundError
        output = await edge.thread(lambda: edge.app.jobs.output(job.id))
        if output is None:
            raise OutputNotStored
        return Response(canonical_bytes(output), media_type="application/json")


_ANY_JSON: dict[int | str, dict[str, Any]] = {
    200: {"description": "The output.", "content": {"application/json": {"schema": {}}}}
}


async def _show(edge: Edge, job: JobView) -> bytes:
    """The frozen response of ``job``."""
    if job.lifecycle_status is not LifecycleStatus.SUCCEEDED:
        return job_status(job).to_bytes()

    def look(conn: sa.Connection) -> bytes:
        return job_status(job, artifacts.existing(conn, job.id)).to_bytes()

    return await edge.read(look)


async def _waited(
    edge: Edge, job: JobView, shown: bytes, known: str | None, wait_s: int
) -> tuple[JobView, bytes]:
    """Wait for what the caller does not know yet: a change of what it was shown, or else the end."""
    if known is not None and not _matches(known, shown):
        return job, shown
    async with edge.watch.watch(job.id) as watcher:
        if known is None:
            job = await watcher.final(job, wait_s)
        else:
            job = await watcher.next(job, wait_s)
    return job, await _show(edge, job)


def _wanted_wait(prefer: str | None) -> int:
    found = _WAIT.search(prefer or "")
    return min(int(found.group(1)), MAX_WAIT_S) if found else 0


def _answer(job: JobView, shown: bytes, known: str | None, wait_s: int) -> Response:
    headers = {"ETag": etag(shown), "Cache-Control": "private, no-cache", "Vary": "Authorization"}
    if not job.is_final:
        headers["Retry-After"] = "5" if job.wait_kind else "1"
    if wait_s:
        headers["Preference-Applied"] = f"wait={wait_s}"
    if known is not None and _matches(known, shown):
        return Response(status_code=304, headers=headers)
    return Response(shown, headers=headers, media_type="application/json")


def etag(body: bytes) -> str:
    """The strong validator of a body."""
    return f'"{hashlib.sha256(body).hexdigest()[:32]}"'


def _matches(known: str, body: bytes) -> bool:
    tags = [tag.strip().removeprefix("W/") for tag in known.split(",")]
    return "*" in tags or etag(body) in tags
