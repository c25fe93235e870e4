"""Who works, what is known, and what was done: workers, job types and the audit."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Response

from engine.http.admin.acts import Operator
from engine.http.admin.filters import Before, Limit
from engine.http.admin.jobs import shown
from engine.http.bodies import ASCII, PLAIN, Body, Instant
from engine.http.edge import Edge
from registry.definition import JobDefinition


class Worker(Body):
    """A worker heard of within the last 90 s. Times in ms."""

    name: str
    queues: list[str]
    hostname: str
    pid: int
    up_ms: int
    silent_ms: int
    executing: int


class Workers(Body):
    """Every worker that is alive."""

    items: list[Worker]


class JobType(Body):
    """One job type as this process knows it, with the JSON Schemas of its input and output."""

    job_type: str
    label: str
    description: str
    domain: str
    version: str
    queue_name: str
    default_priority: int
    timeout_ms: int
    max_retries: int
    cancellable: bool
    credential_modes: list[str]
    projector: str | None = None
    prompt_version: str | None = None
    input_schema: dict[str, Any]
    output_schema: dict[str, Any]


class JobTypes(Body):
    """Every job type that this process knows."""

    items: list[JobType]


class Entry(Body):
    """One act, as it was written down."""

    id: UUID
    at: Instant
    actor: str
    edge: str
    verb: str
    object_type: str
    object_id: str
    reason: str | None = None
    result: str
    request_id: str | None = None
    detail: dict[str, Any]


class AuditPage(Body):
    """A page of the audit, newest first."""

    items: list[Entry]
    next: UUID | None = None


def fleet_routes(router: APIRouter, edge: Edge, operator: Any) -> None:
    """Add the routes to ``router``."""

    @router.get("/workers", response_model=Workers)
    def list_workers(who: Operator = Depends(operator)) -> Response:
        """Workers that Redis has heard of within the last 90 s."""
        found = edge.app.transport.workers()
        return shown(Workers(items=[Worker.model_validate(w, from_attributes=True) for w in found]))

    @router.get("/types", response_model=JobTypes)
    def list_types(who: Operator = Depends(operator)) -> Response:
        """Job types, their policies and schemas."""
        return shown(JobTypes(items=[_type(d) for d in edge.app.registry.get_all()]))

    @router.get("/audit", response_model=AuditPage)
    def list_audit(
        object_type: Annotated[
            str | None, Query(alias="objectType", max_length=32, pattern=ASCII)
        ] = None,
        object_id: Annotated[
            str | None, Query(alias="objectId", max_length=255, pattern=PLAIN)
        ] = None,
        actor: Annotated[str | None, Query(max_length=128, pattern=PLAIN)] = None,
        verb: Annotated[str | None, Query(max_length=64, pattern=ASCII)] = None,
        before: Before = None,
        limit: Limit = 50,
        who: Operator = Depends(operator),
    ) -> Response:
        """What operators did, newest first, page by page."""
        found = edge.app.uow.read(
            lambda conn: edge.audit.page(
                conn, object_type=object_type, object_id=object_id, actor=actor, verb=verb,
                before=before, limit=limit,
            )
        )  # fmt: skip
        items = [Entry.model_validate(entry, from_attributes=True) for entry in found]
        return shown(AuditPage(items=items, next=found[-1].id if len(found) == limit else None))


def _type(definition: JobDefinition) -> JobType:
    return JobType(
        job_type=definition.job_type,
        label=definition.metadata.label,
        description=definition.metadata.description,
        domain=definition.metadata.domain,
        version=definition.metadata.version,
        queue_name=definition.queue.queue_name,
        default_priority=definition.queue.default_priority,
        timeout_ms=definition.execution.timeout_ms,
        max_retries=definition.execution.max_retries,
        cancellable=definition.execution.cancellable,
        credential_modes=list(definition.credential.allowed_modes),
        projector=definition.projector,
        prompt_version=definition.prompt_version,
        input_schema=definition.input.model.model_json_schema(),
        output_schema=definition.output.model.model_json_schema(),
    )
