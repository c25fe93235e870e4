"""The answer of a route that made a job: 202 with the job's place, or 200 when a repeat found it (X49)."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from fastapi import Request, Response
from starlette.types import Scope

from engine.http.bodies import job_status
from engine.intake.commands import CreatedJob

#: Makes the answer for a created job.
JobReply = Callable[[CreatedJob], Response]


def job_reply(request: Request) -> JobReply:
    """FastAPI dependency: ``reply: JobReply = Depends(job_reply)``, then ``return reply(made)``."""

    def reply(made: CreatedJob) -> Response:
        headers = {"Location": job_place(request.scope, made.job.id)}
        if not made.created:
            headers["Idempotency-Replayed"] = "true"
        return Response(
            job_status(made.job).to_bytes(),
            202 if made.created else 200,
            headers,
            media_type="application/json",
        )

    return reply


def job_place(scope: Scope, job_id: UUID) -> str:
    """Where a job is read and followed, for a ``Location``: below the prefix that the application is served at."""
    return f"{scope.get('root_path', '')}/api/ai/jobs/{job_id}"
