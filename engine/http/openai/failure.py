"""Errors in OpenAI's shape, and what a job's failure means to a client."""

from __future__ import annotations

from typing import Any, Final

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.responses import JSONResponse

from engine.http.errors import HttpError
from engine.http.openai.request import UNSUPPORTED
from engine.http.problem import Answerable, publicly
from engine.http.routes import ProblemRoute, described
from registry.job import JobView

#: The client library obeys this header; without it, it would repeat a request that may be billed again.
SHOULD_RETRY: Final = "X-Should-Retry"

#: OpenAI's words where it has some of its own; others are ours in lower case.
_CODES: Final = {
    "UNAUTHENTICATED": "invalid_api_key",
    "RATE_LIMITED": "rate_limit_exceeded",
    "TOO_MANY_JOBS": "rate_limit_exceeded",
    "QUOTA_EXCEEDED": "insufficient_quota",
    "PROVIDER_RATE_LIMITED": "rate_limit_exceeded",
    "CONTENT_SAFETY_FILTERED": "content_filter",
    "CONTENT_SAFETY_BLOCKED": "content_filter",
    "REQUEST_INVALID": "invalid_value",
    "REQUEST_MALFORMED": "invalid_json",
}
_TYPES: Final = {
    401: "authentication_error",
    403: "permission_error",
    409: "idempotency_conflict",
    429: "rate_limit_error",
}


class ModelNotFound(HttpError):
    """This model is not offered."""

    code = "MODEL_NOT_FOUND"
    status = 404
    public_message = "This model is not offered here."


class StillRunning(HttpError):
    """The answer is not there in time; the job goes on."""

    code = "JOB_NOT_FINISHED"
    status = 504
    public_message = "The answer is not finished yet; the job goes on."


class JobFailed(HttpError):
    """The job behind this request failed."""

    code = "JOB_FAILED"
    status = 502


def answer_in_openai_shape(answer: Answerable) -> Response:
    """The error object that OpenAI's clients read."""
    error = {
        "message": answer.detail,
        "type": _type(answer),
        "param": answer.extra.get("param"),
        "code": _CODES.get(answer.code, answer.code.lower()),
    }
    if "job_id" in answer.extra:
        error["job_id"] = answer.extra["job_id"]
    return JSONResponse({"error": error}, answer.status, dict(answer.headers))


def _type(answer: Answerable) -> str:
    if answer.code == "QUOTA_EXCEEDED":
        return "insufficient_quota"
    if answer.status >= 500:
        return "server_error"
    return _TYPES.get(answer.status, "invalid_request_error")


class OpenAIRoute(ProblemRoute):
    """A route whose errors have OpenAI's shape."""

    def render(self, request: Request, error: Exception) -> Response:
        """Validation errors name the first parameter at fault, with status 400."""
        if isinstance(error, RequestValidationError):
            return answer_in_openai_shape(_invalid(error))
        answer = described(request, error)
        response = answer_in_openai_shape(answer)
        headers = getattr(error, "headers", None)
        if isinstance(headers, dict):
            response.headers.update(headers)
        return response


def _invalid(error: RequestValidationError) -> Answerable:
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return Answerable(400, "REQUEST_MALFORMED", "The request's body is not JSON.")
    steps = list(first["loc"])[1:]
    param = "".join(f"[{s}]" if isinstance(s, int) else f".{s}" for s in steps).lstrip(".")
    if steps and steps[0] in UNSUPPORTED:
        detail = f"The parameter {steps[0]} is not supported here."
        return Answerable(400, "UNSUPPORTED_PARAMETER", detail, extra={"param": steps[0]})
    if first["type"] == "extra_forbidden":
        detail = f"Unrecognized request argument supplied: {param[:100]}"
        return Answerable(400, "UNSUPPORTED_PARAMETER", detail, extra={"param": param[:100]})
    detail = publicly(f"{param}: {first['msg']}" if param else str(first["msg"]))
    return Answerable(400, "REQUEST_INVALID", detail, extra={"param": param or None})


# ------------------------------------------------------------------ a job's failure

_CLIENT_FAULTS: Final = (
    "CONTENT_SAFETY_", "PROVIDER_REJECTED", "PROVIDER_INPUT_UNUSABLE", "PAYLOAD_", "VALIDATION_NOT",
)  # fmt: skip
_STATUS: Final = {
    "PROVIDER_RATE_LIMITED": 429,
    "TIMEOUT": 504,
    "PROVIDER_TIMEOUT": 504,
    "PROVIDER_OFFLINE_UNSUPPORTED": 503,
    "QUOTA_EXCEEDED": 429,
    "CANCELLED": 409,
}


def failure_of(job: JobView) -> Answerable:
    """What a client is told about a job that failed or was cancelled."""
    code = job.error_code or "CANCELLED"
    detail = publicly(job.public_error_message or "This job was cancelled.")
    headers = {SHOULD_RETRY: "false", "X-Job-Id": str(job.id)}
    return Answerable(_status(code), code, detail, headers, {"job_id": str(job.id)})


def _status(code: str) -> int:
    if code in _STATUS:
        return _STATUS[code]
    if code.startswith(_CLIENT_FAULTS):
        return 400
    if code.startswith("CREDENTIAL_"):
        return 503
    return 502 if code.startswith(("PROVIDER_", "VALIDATION_")) else 500


def error_event(answer: Answerable) -> dict[str, Any]:
    """The same inside a stream."""
    body = {"message": answer.detail, "type": _type(answer), "param": None}
    return {"error": body | {"code": _CODES.get(answer.code, answer.code.lower()), **answer.extra}}
