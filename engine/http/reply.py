"""The answer of a route that made a job: 202 with the job's place, or 200 when a repeat found it (X49)."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import Request, Response

from engine.http.bodies import job_status
from engine.intake.commands import CreatedJob

#: Makes the answer for a created job.
JobReply = Callable[[CreatedJob], Response]


def job_reply(request: Request) -> JobReply:
    """FastAPI dependency: ``reply: JobReply = Depends(job_reply)``, then ``return reply(made)``."""

    def reply(made: CreatedJob) -> Response:
        place = f"{request.scope.get('root_path', '')}/api/ai/jobs/{made.job.id}"
        headers = {"Location": place}
        if not made.created:
            headers["Idempotency-Replayed"] = "true"
        return Response(
            job_status(made.job).to_bytes(),
            202 if made.created else 200,
            headers,
            media_type="application/json",
        )

    return reply
