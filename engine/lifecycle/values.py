"""What the lifecycle repository is given: a job to insert, and why an attempt failed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from engine.lifecycle.states import LEGACY
from registry.job import LifecycleStatus, Outcome, StartReason


# Not frozen: a frozen one costs four times as much to make, and a call makes hundreds.
@dataclass(slots=True)
class NewJob:
    """A validated job, ready to be inserted; the id was chosen before (CI-9)."""

    id: UUID
    user_id: str
    job_type: str
    target_type: str
    target_id: str
    idempotency_key: str | None
    idempotency_digest: bytes | None
    request_fingerprint: bytes
    queue_name: str
    priority: int
    max_attempts: int
    available_at: datetime | None
    credential_mode: str
    credential_id: str | None
    prompt_version: str | None
    schema_version: str
    output_schema_version: str
    retry_of_job_id: UUID | None
    traceparent: str | None

    def row(self) -> dict[str, Any]:
        """The insert's values; what every new job shares stands in :data:`BIRTH`."""
        return {name: getattr(self, name) for name in _COLUMNS}


_COLUMNS = tuple(NewJob.__dataclass_fields__)

#: What every new job begins with.
BIRTH: dict[str, str | int] = {
    "lifecycle_status": LifecycleStatus.QUEUED.value,
    "status": LEGACY[LifecycleStatus.QUEUED],
    "progress": 0,
    "attempt_count": 0,
    "start_reason": StartReason.FIRST.value,
    "epoch": 0,
    "delivery_no": 1,
}


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt or a job failed. ``internal`` is for engineers and is shown to nobody else."""

    code: str | None
    public: str | None = None
    internal: str | None = None
    #: What the next attempt may be told, one sentence each; never an output.
    errors: Sequence[str] = ()
    outcome: Outcome = Outcome.ERROR

    def columns(self, outcome: str | None = None) -> dict[str, Any]:
        """The error columns of ``ai_job``."""
        return {
            "ended_error": self.code,
            "public_error": self.public[:500] if self.public else None,
            "internal_error": self.internal[:60_000] if self.internal else None,
            "ended_outcome": outcome or self.outcome.value,
        }

    @property
    def errors_json(self) -> str | None:
        return json.dumps([text[:500] for text in self.errors][:20], ensure_ascii=False) if self.errors else None
