"""What a caller asks for, and what it gets back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import BaseModel

from registry.job import JobView


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOverrides:
    """What one job does differently from its definition; None keeps the definition's value."""

    priority: int | None = None
    credential_mode: str | None = None
    credential_id: str | None = None
    prompt_version: str | None = None
    output_schema_version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateJobInput:
    """A request for one job.

    ``payload`` is the job type's input: its model, or a mapping that the model accepts. With an
    ``idempotency_key`` the same user, type and key never make two jobs. ``available_at`` (timezone-aware)
    delays the start.
    """

    user_id: str
    job_type: str
    target_type: str
    target_id: str
    payload: BaseModel | Mapping[str, Any]
    idempotency_key: str | None = None
    available_at: datetime | None = None
    overrides: JobOverrides | None = None


@dataclass(frozen=True, slots=True)
class CreatedJob:
    """The job, and whether this call made it; a repeated key finds the first one, in its present state."""

    job: JobView
    created: bool
