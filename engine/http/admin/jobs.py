"""Jobs as operators see them: list, look at, retry, cancel."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import sqlalchemy as sa
from fastapi import APIRouter, Depends, Request, Response

from engine.http.admin.acts import Operator
from engine.http.admin.filters import Before, Limit, wanted_jobs
from engine.http.bodies import (
    AdminJob,
    Body,
    Instant,
    JobStatus,
    Order,
    Reason255,
    admin_job,
    job_status,
)
from engine.http.edge import Edge
from engine.http.idempotency import keyed_request
from engine.http.jobs import JobId
from engine.http.keyed import KeyedCall
from engine.http.problem import problem_responses
from engine.http.reply import job_place
from engine.intake.commands import CreatedJob
from engine.lifecycle import views
from engine.lifecycle.views import JobFilter
from engine.upkeep.inspection import JobRecord
from registry.job import JobView, LifecycleStatus


class JobPage(Body):
    """A page of jobs, newest first. ``next`` is the id to give as ``before``; null on the last page."""

    items: list[AdminJob]
    next: UUID | None = None


class Why(Body):
    """Why the job is where it is, what happens next by itself, and when at the latest."""

    code: str
    sentence: str
    next_step: str | None = None
    at: Instant | None = None
    command: str | None = None
    needs_person: bool = False


class Attempt(Body):
    """One claim of the job."""

    epoch: int
    attempt_no: int
    start_reason: str
    worker: str
    started_at: Instant
    ended_at: Instant | None = None
    error_code: str | None = None


class Delivery(Body):
    """One outbox event of the job."""

    id: UUID
    event_type: str
    status: str
    delivery_no: int
    attempt_count: int
    available_at: Instant
    created_at: Instant
    published_at: Instant | None = None
    last_error: str | None = None


class Call(Body):
    """One call of a provider. ``intent`` that was never settled is a call of unknown outcome."""

    epoch: int
    call_no: int
    status: str
    provider: str
    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    latency_ms: int | None = None
    finish_reason: str | None = None
    error_code: str | None = None


class JobDetail(Body):
    """Everything on record about one job, and why it is where it is."""

    job: AdminJob
    why: Why
    attempts: list[Attempt]
    deliveries: list[Delivery]
    calls: list[Call]


class Reason(Order):
    """Why an operator acts; it stands in the audit."""

    reason: Reason255 | None = None


def jobs_routes(router: APIRouter, edge: Edge, operator: Any) -> None:
    """Add the routes to ``router``."""
    _list_route(router, edge, operator)
    _detail_route(router, edge, operator)
    _retry_route(router, edge, operator)
    _cancel_route(router, edge, operator)


def _list_route(router: APIRouter, edge: Edge, operator: Any) -> None:
    @router.get("/jobs", response_model=JobPage)
    def list_jobs(
        before: Before = None,
        limit: Limit = 50,
        wanted: JobFilter = Depends(wanted_jobs),
        who: Operator = Depends(operator),
    ) -> Response:
        """Jobs that match, newest first, page by page."""
        found = edge.app.uow.read(lambda conn: views.page(conn, wanted, before=before, limit=limit))
        items = [admin_job(job, internal=who.sees_internal) for job in found]
        page = JobPage(items=items, next=found[-1].id if len(found) == limit else None)
        return shown(page)


def _detail_route(router: APIRouter, edge: Edge, operator: Any) -> None:
    look = edge.app.inspector

    @router.get("/jobs/{job_id}", response_model=JobDetail)
    def read_job(job_id: JobId, who: Operator = Depends(operator)) -> Response:
        """One job: its row, its attempts, deliveries and calls, and why it is where it is."""
        record = look.record(job_id)
        why = Why.model_validate(look.why(record), from_attributes=True)
        return shown(_detail(record, why, who))


def _detail(record: JobRecord, why: Why, who: Operator) -> JobDetail:
    calls = [
        Call.model_validate(call, from_attributes=False, by_name=True)
        for call in map(_call, record.calls)
    ]
    return JobDetail(
        job=admin_job(record.job, internal=who.sees_internal, artifacts=record.artifacts),
        why=why,
        attempts=[Attempt.model_validate(c, from_attributes=True) for c in record.claims],
        deliveries=[Delivery.model_validate(e, from_attributes=True) for e in record.events],
        calls=calls,
    )


def _call(row: Any) -> dict[str, Any]:
    return {name: row[name] for name in Call.model_fields}


def _retry_route(router: APIRouter, edge: Edge, operator: Any) -> None:
    @router.post(
        "/jobs/{job_id}/retry",
        status_code=201,
        response_model=JobStatus,
        responses=problem_responses(409),
    )
    def retry_job(
        request: Request,
        job_id: JobId,
        body: Reason | None = None,
        who: Operator = Depends(operator),
        call: KeyedCall | None = Depends(keyed_request),
    ) -> Response:
        """A new job with the input of a failed or cancelled one; the old one stays as it is (X75).

        `Location` is where the new one is read and followed.
        """
        made = retry(who, job_id, body.reason if body else None, call)
        answer = shown(job_status(made.job), 201)
        answer.headers["Location"] = job_place(request.scope, made.job.id)
        return answer


def retry(
    who: Operator, job_id: UUID, reason: str | None, call: KeyedCall | None = None
) -> CreatedJob:
    """Make a job anew, and write it down."""

    def unit(conn: sa.Connection) -> CreatedJob:
        made = who.edge.app.jobs.retry_as_new(job_id, session=conn)
        if call is not None:
            call.link(conn, made.job.id)
        return made

    return who.do(
        "job.retry", "job", job_id, unit, reason=reason,
        detail_of=lambda made: {"newJobId": str(made.job.id)},
    )  # fmt: skip


def _cancel_route(router: APIRouter, edge: Edge, operator: Any) -> None:
    @router.post(
        "/jobs/{job_id}/cancel",
        response_model=JobStatus,
        responses={
            202: {"model": JobStatus, "description": "Asked; its worker will stop it."},
            **problem_responses(409),
        },
    )
    def cancel_job(
        job_id: JobId, body: Reason | None = None, who: Operator = Depends(operator)
    ) -> Response:
        """Cancel any job: 200 when it is cancelled, 202 when its worker was asked to stop."""
        job = cancel(who, job_id, body.reason if body else None)
        done = job.lifecycle_status is LifecycleStatus.CANCELLED
        return shown(job_status(job), 200 if done else 202)


def cancel(who: Operator, job_id: UUID, reason: str | None) -> JobView:
    """Cancel a job, and write it down."""
    job = who.do(
        "job.cancel", "job", job_id,
        lambda conn: who.edge.app.jobs.request_cancel(job_id, session=conn), reason=reason,
        detail_of=lambda job: {"lifecycleStatus": job.lifecycle_status.value},
    )  # fmt: skip
    who.hint_cancel(job)
    return job


def shown(body: Body, status: int = 200) -> Response:
    """``body`` as a response, members without a value left out."""
    content = body.model_dump_json(by_alias=True, exclude_none=True)
    return Response(content, status, media_type="application/json")
