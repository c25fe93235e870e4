"""Makes the job of a chat request, or attaches to the one that an interrupted request had made."""

from __future__ import annotations

import sqlalchemy as sa

from engine.errors import JobNotFoundError
from engine.http.auth import Principal
from engine.http.edge import Edge, joining
from engine.http.keyed import KeyedCall
from engine.intake.commands import CreateJobInput
from engine.lifecycle import views
from registry.catalog.chat_completion import DEFINITION, ChatCompletionInput
from registry.job import JobView, LifecycleStatus, Outcome


def begin(
    edge: Edge, principal: Principal, payload: ChatCompletionInput, call: KeyedCall | None
) -> JobView:
    """The job of this request. With a key, job and link are one transaction, so that no crash comes between."""
    wanted = CreateJobInput(
        user_id=principal.subject,
        job_type=DEFINITION.job_type,
        target_type="chat",
        target_id="completion",
        payload=payload,
        # New whenever the client's key is used anew, the same after a crash.
        idempotency_key=None if call is None else f"http:{call.record_id}",
    )
    if call is None:
        return edge.app.jobs.create_job(wanted).job
    return _attached(edge, principal, call) or _made(edge, wanted, call)


def _attached(edge: Edge, principal: Principal, call: KeyedCall) -> JobView | None:
    if call.job_id is None:
        return None
    job_id = call.job_id
    job = edge.app.uow.read(lambda conn: views.find(conn, job_id))
    if job is not None and job.user_id != principal.subject:
        raise JobNotFoundError
    return job


def _made(edge: Edge, wanted: CreateJobInput, call: KeyedCall) -> JobView:
    def unit(conn: sa.Connection) -> JobView:
        made = edge.app.jobs.create_job(wanted, session=conn)
        call.link(conn, made.job.id)
        return made.job

    # By its key the job is found again, should the answer to COMMIT be lost.
    return edge.app.uow.run(joining(unit), repeatable=True)


def may_be_made_anew(job: JobView) -> bool:
    """Whether a repeat of the request may make another job: this one ended without an answer, and nothing of it is
    unknown (X59). Of an indeterminate one nobody knows whether it was billed.
    """
    if job.lifecycle_status is LifecycleStatus.CANCELLED:
        return True
    return (
        job.lifecycle_status is LifecycleStatus.FAILED and job.outcome is not Outcome.INDETERMINATE
    )
