"""Errors as RFC 9457 problems: ADR-003's codes and statuses, ours beside them, and nothing that must not leave."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final

import sqlalchemy as sa
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import JSONResponse, Response

from engine.errors import CreateError, JobStateError, PlatformUnavailableError, QuotaExceededError
from engine.http.errors import HttpError, Unauthenticated
from engine.idempotency.errors import IdempotencyError, IdempotencyInProgress
from engine.upkeep.errors import OutboxEventNotFound, OutboxEventState
from outbox.base.errors import DatabaseError
from outbox.base.failures import classify
from outbox.errors import TransportUnavailable
from registry.errors import AiJobsError, RegistryError

MEDIA_TYPE: Final = "application/problem+json"

#: Status by code, where it is not the class's own. ADR-003 7.3 first.
STATUS: Final[dict[str, int]] = {
    "JOB_NOT_FOUND": 404,
    "JOB_NOT_CANCELLABLE": 409,
    "JOB_ALREADY_CANCELLED": 409,
    "TOO_MANY_JOBS": 429,
    "QUOTA_EXCEEDED": 429,
    "PLATFORM_UNAVAILABLE": 503,
    "JOB_NOT_RETRYABLE": 409,
    "SNAPSHOT_EXPIRED": 409,
    "JOB_STATE": 409,
    "WAIT_TIMEOUT": 504,
    "IDEMPOTENCY_KEY_REUSED": 422,
    "IDEMPOTENCY_KEY_INVALID": 400,
    "IDEMPOTENCY_KEY_MISSING": 400,
    "IDEMPOTENCY_IN_PROGRESS": 409,
    "IDEMPOTENCY_CLAIM_LOST": 409,
    "IDEMPOTENCY_OUTCOME_UNKNOWN": 409,
    "IDEMPOTENCY_ANSWER_NOT_KEPT": 409,
    "PAYLOAD_INVALID": 422,
    "PAYLOAD_TOO_LARGE": 413,
    "FIELD_INVALID": 422,
    "OUTBOX_EVENT_NOT_FOUND": 404,
    "OUTBOX_EVENT_STATE": 409,
    "JOB_TYPE_UNKNOWN": 404,
    "QUEUE_UNKNOWN": 404,
    "PROVIDER_RATE_LIMITED": 429,
}

#: Errors whose own text was written for the caller: it names fields and states, never values.
_SPEAKS_FOR_ITSELF: Final = (
    CreateError,
    JobStateError,
    RegistryError,
    HttpError,
    OutboxEventNotFound,
    OutboxEventState,
)

#: When to come back where an error does not say, in seconds.
_RETRY_AFTER_S: Final = {
    "TOO_MANY_JOBS": 5,
    "PLATFORM_UNAVAILABLE": 5,
    "IDEMPOTENCY_CLAIM_LOST": 1,
}
_HIDDEN: Final = "Something went wrong on our side."
#: Paths, addresses, keys and stacks; a text that holds one is replaced as a whole.
_NOT_PUBLIC: Final = re.compile(
    r"(?:^|[\s'\"(=])/(?:[\w.-]+/)+[\w.-]*"  # /a/b
    r"|\b[A-Za-z]:\\"  # C:\
    r"|\b\d{1,3}(?:\.\d{1,3}){3}\b"
    r"|\b(?:[0-9a-f]{0,4}:){3,}[0-9a-f]{0,4}\b"
    r"|\b[a-z][a-z0-9+.-]*://"
    r"|\blocalhost(?::\d+)?\b"
    r"|Traceback|\bFile \"|\bline \d+, in "
    r"|\b(?:sk|pk|xox[a-z]|gh[a-z]|AKIA|eyJ)[-_A-Za-z0-9]{10,}",
)


class Problem(BaseModel):
    """RFC 9457: what went wrong, for people and programs."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(description="A name for this kind of problem.")
    title: str
    status: int
    code: str = Field(description="Stable name for programs.")
    detail: str
    job_id: str | None = None
    request_id: str | None = None


@dataclass(frozen=True, slots=True)
class Answerable:
    """An error on its way out: its status, its code, a text anybody may read, and headers."""

    status: int
    code: str
    detail: str
    headers: Mapping[str, str] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)

    def response(self, request_id: str | None = None) -> Response:
        """This error as a problem."""
        body = {
            "type": f"urn:aijobs:error:{self.code.lower().replace('_', '-')}",
            "title": self.code.replace("_", " ").capitalize(),
            "status": self.status,
            "code": self.code,
            "detail": self.detail,
            **self.extra,
        }
        if request_id is not None:
            body["request_id"] = request_id
        return JSONResponse(body, self.status, dict(self.headers), media_type=MEDIA_TYPE)


def describe(error: Exception) -> Answerable:
    """What a client is told about ``error``; for one that is not ours, nothing but that it happened."""
    if isinstance(error, sa.exc.DBAPIError) and classify(error) != "other":
        return describe(PlatformUnavailableError())
    if isinstance(error, sa.exc.TimeoutError | DatabaseError | TransportUnavailable):
        return describe(PlatformUnavailableError())
    if not isinstance(error, AiJobsError):
        return Answerable(500, "INTERNAL_ERROR", _HIDDEN)
    status = _status(error)
    if status >= 500 and not error.retryable and status != 504:
        return Answerable(status, error.code, publicly(error.public_message), extra=_extra(error))
    return Answerable(status, error.code, _detail(error), _headers(error), _extra(error))


def publicly(text: str | None) -> str:
    """``text``, or a general sentence where it holds a path, an address, a key or a stack."""
    if not text or _NOT_PUBLIC.search(text):
        return _HIDDEN
    return text


def _status(error: AiJobsError) -> int:
    if isinstance(error, HttpError):
        return error.status
    if error.code in STATUS:
        return STATUS[error.code]
    return 422 if isinstance(error, CreateError) else 500


def _detail(error: AiJobsError) -> str:
    if isinstance(error, HttpError):
        return publicly(error.detail)
    text = str(error) if isinstance(error, _SPEAKS_FOR_ITSELF) else error.public_message
    safe = publicly(text)
    return safe if safe != _HIDDEN else publicly(error.public_message)


def _headers(error: AiJobsError) -> dict[str, str]:
    headers = {}
    after = retry_after_s(error)
    if after is not None:
        headers["Retry-After"] = str(after)
    if isinstance(error, Unauthenticated):
        headers["WWW-Authenticate"] = "Bearer"
    return headers


def retry_after_s(error: AiJobsError) -> int | None:
    """When the caller may try again, in seconds; None where trying again is of no use."""
    if isinstance(error, HttpError):
        return error.retry_after_s
    if isinstance(error, IdempotencyInProgress):
        return error.retry_after_s
    if isinstance(error, QuotaExceededError):
        return _seconds_left(error.details)
    return _RETRY_AFTER_S.get(error.code)


def _seconds_left(details: Mapping[str, Any]) -> int:
    """Until the quota's window ends: a day or a month, UTC."""
    at, window = details.get("at"), details.get("window")
    if not isinstance(at, datetime):
        return 3_600
    day = at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    end = (
        day + timedelta(days=1)
        if window == "day"
        else (day.replace(day=1) + timedelta(days=32)).replace(day=1)
    )
    return max(1, round((end - at).total_seconds()))


def _extra(error: AiJobsError) -> dict[str, Any]:
    if not isinstance(error, IdempotencyError | CreateError | JobStateError | HttpError):
        return {}
    told = {name: error.details.get(name) for name in ("job_id", "param", "errors")}
    found = {name: value for name, value in told.items() if value}
    return found | ({"job_id": str(found["job_id"])} if "job_id" in found else {})


def problem_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The OpenAPI entry of these statuses."""
    return {
        status: {
            "description": _DESCRIPTIONS.get(status, "Refused"),
            "content": {MEDIA_TYPE: {"schema": _problem_schema()}},
        }
        for status in statuses
    }


@cache
def _problem_schema() -> dict[str, Any]:
    return Problem.model_json_schema()


_DESCRIPTIONS: Final = {
    400: "Malformed request",
    401: "No valid credentials",
    403: "Not allowed",
    404: "Not found, or not yours",
    408: "Body not there in time",
    409: "Not possible in this state",
    413: "Body too large",
    422: "Not valid",
    429: "Too many requests or jobs",
    500: "Our fault",
    503: "Database or Redis not reachable",
    504: "Not finished in time",
}


def validation_errors(errors: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Where and why a request was refused, without what it said."""
    return [
        {"place": ".".join(str(step) for step in error["loc"]), "message": str(error["msg"])}
        for error in errors[:20]
    ]
