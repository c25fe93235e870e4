"""Every field of a request is judged here, in code, with the same answer on every database (DB-6, CI-4)."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ValidationError

from engine.errors import (
    InvalidCreateFieldError,
    InvalidPayloadError,
    JobNotFoundError,
    PayloadTooLargeError,
)
from engine.intake.commands import CreateJobInput, JobOverrides
from outbox.base.documents import model_bytes
from outbox.base.errors import NotCanonicalError
from registry.definition import JobDefinition

#: Longest values, in characters; text beyond is refused, never cut.
MAX_USER_ID = 128
MAX_TARGET_TYPE = 64
MAX_TARGET_ID = 255
MAX_KEY = 255
MAX_CREDENTIAL_ID = 64
MAX_VERSION = 32

#: Control characters and lone surrogates.
_UNWRITABLE = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")

_EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST = datetime(9000, 1, 1, tzinfo=UTC)


def check_kind(wanted: object) -> None:
    """Refuse what is no request at all, such as a plain dict."""
    if not isinstance(wanted, CreateJobInput):
        raise _wrong("input", f"must be a CreateJobInput, not {type(wanted).__name__}")
    if not isinstance(wanted.overrides, JobOverrides | None):
        raise _wrong("overrides", f"must be a JobOverrides, not {type(wanted.overrides).__name__}")


def to_job_id(job_id: object) -> UUID:
    """The id, which may be given as text; raises :class:`JobNotFoundError` for what cannot name a job."""
    if isinstance(job_id, UUID):
        return job_id
    if not isinstance(job_id, str):
        raise JobNotFoundError(
            f"There is no such job: an id is a UUID, not {type(job_id).__name__}."
        )
    try:
        return UUID(job_id)
    except ValueError:
        raise JobNotFoundError("There is no such job: the id is not a UUID.") from None


def check_fields(wanted: CreateJobInput) -> None:
    """Refuse a request whose own fields are wrong, whatever its type says."""
    _name("user_id", wanted.user_id, MAX_USER_ID)
    _name("target_type", wanted.target_type, MAX_TARGET_TYPE)
    _name("target_id", wanted.target_id, MAX_TARGET_ID)
    if wanted.idempotency_key is not None:
        _text("idempotency_key", wanted.idempotency_key, MAX_KEY)
    if wanted.available_at is not None:
        _instant("available_at", wanted.available_at)


def check_overrides(definition: JobDefinition, overrides: JobOverrides) -> None:
    """Refuse overrides that the definition does not allow."""
    priority, mode = overrides.priority, overrides.credential_mode
    if priority is not None and not _is_priority(priority):
        raise _wrong("overrides.priority", "must be a whole number from 0 (first) to 100 (last)")
    allowed = definition.credential.allowed_modes
    if mode is not None and mode not in allowed:
        raise _wrong(
            "overrides.credential_mode", f"must be one of {', '.join(allowed)} for this job type"
        )
    _optional("overrides.credential_id", overrides.credential_id, MAX_CREDENTIAL_ID)
    _optional("overrides.prompt_version", overrides.prompt_version, MAX_VERSION)
    _optional("overrides.output_schema_version", overrides.output_schema_version, MAX_VERSION)
    chosen = mode or definition.credential.default_mode
    if chosen == "user_deepseek_key" and overrides.credential_id is None:
        raise _wrong(
            "overrides.credential_id", "is needed with the credential mode user_deepseek_key"
        )


def _is_priority(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 100


def check_payload(
    definition: JobDefinition, payload: Any, *, limit: int
) -> tuple[BaseModel, bytes]:
    """The validated input, and its canonical bytes before redaction; ``limit`` is in bytes."""
    model = definition.input.model
    try:
        # A model instance may have been changed since it was validated, so it is read anew as well.
        raw = (
            payload.model_dump(mode="python", warnings=False)
            if isinstance(payload, BaseModel)
            else payload
        )
        value = model.model_validate(raw)
    except ValidationError as error:
        raise InvalidPayloadError(_problems(model, error), field="payload") from None
    except Exception as error:  # noqa: BLE001 - whatever a validator with a mistake in it raises
        # Its kind alone: the text may hold the payload.
        raise InvalidPayloadError(
            f"payload: {model.__name__}: {type(error).__name__}", field="payload"
        ) from None
    content = to_canonical(value)
    if len(content) > limit:
        raise PayloadTooLargeError(
            f"payload: {len(content)} bytes, the limit is {limit} (AIJOBS_PAYLOAD_LIMIT_BYTES)",
            field="payload",
        )
    return value, content


def to_canonical(value: BaseModel) -> bytes:
    """The canonical bytes of a validated model; what no database could keep is refused."""
    try:
        return model_bytes(value)
    except NotCanonicalError as error:
        raise InvalidPayloadError(f"payload: {error}", field="payload") from None


def _problems(model: type[BaseModel], error: ValidationError) -> str:
    """Where and why, without the value: it may be somebody's text."""
    lines = [
        f"payload.{'.'.join(map(str, e['loc']))}: {e['msg']}"
        if e["loc"]
        else f"payload: {e['msg']}"
        for e in error.errors(include_input=False, include_url=False, include_context=False)
    ]
    more = f" (and {len(lines) - 5} more)" if len(lines) > 5 else ""
    return f"{model.__name__}: {'; '.join(lines[:5])}{more}"


def _name(field: str, value: Any, longest: int) -> None:
    """A text that columns are compared by: MySQL ignores blanks at its end, so there may be none (X43)."""
    _text(field, value, longest)
    if value != value.strip():
        raise _wrong(field, "must not begin or end with blanks")


def _text(field: str, value: Any, longest: int) -> None:
    if not isinstance(value, str):
        raise _wrong(field, f"must be text, not {type(value).__name__}")
    if not value or value.isspace():
        raise _wrong(field, "must not be empty")
    if len(value) > longest:
        raise _wrong(field, f"has {len(value)} characters, the limit is {longest}")
    if _UNWRITABLE.search(value):
        raise _wrong(field, "must not hold control characters or lone surrogates")


def _optional(field: str, value: Any, longest: int) -> None:
    if value is not None:
        _text(field, value, longest)


def _instant(field: str, value: Any) -> None:
    if not isinstance(value, datetime):
        raise _wrong(field, f"must be a datetime, not {type(value).__name__}")
    if value.tzinfo is None or value.utcoffset() is None:
        raise _wrong(field, "has no time zone; give an aware datetime")
    if not _EARLIEST <= value <= _LATEST:
        raise _wrong(field, "must lie between 1970 and 9000")


def _wrong(field: str, why: str) -> InvalidCreateFieldError:
    return InvalidCreateFieldError(f"{field}: {why}", field=field)
