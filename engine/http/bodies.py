"""The JSON that the job API speaks: ADR-003's frozen response, and what operators see beside it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Final, Literal
from uuid import UUID

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer
from pydantic.alias_generators import to_camel

from engine.http.problem import publicly
from projectors.protocol import ArtifactRef
from registry.job import JobView


def iso(moment: datetime) -> str:
    """UTC with microseconds and a Z."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


Instant = Annotated[datetime, PlainSerializer(iso, return_type=str)]
#: A text that people outside may read; what could hold more is replaced.
PublicText = Annotated[str, BeforeValidator(publicly)]
#: Text without control characters, which not every database could take.
PLAIN: Final = r"^[^\x00-\x1f\x7f]*$"
#: Names that stand in columns of ASCII; MariaDB compares nothing else with them.
ASCII: Final = r"^[\x20-\x7e]*$"
Reason255 = Annotated[
    str, Field(min_length=1, max_length=255, pattern=r"^[^\x00-\x1f\x7f]*\S[^\x00-\x1f\x7f]*$")
]
Status = Literal["queued", "running", "succeeded", "failed", "cancelled"]


class Body(BaseModel):
    """camelCase outside, snake_case inside."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True)


class Order(Body):
    """A body that a client sends: a misspelt member is refused, not passed over."""

    model_config = ConfigDict(extra="forbid")


def _number(value: object) -> object:
    """JSON has one kind of number: 5.0 is a whole one, "5" and true are none."""
    if isinstance(value, bool | str):
        raise ValueError("must be a whole number")
    return value


#: Makes an int a whole number of JSON; stands behind its bounds, or the description would lose them.
JSON_NUMBER: Final = BeforeValidator(_number)


class Artifact(Body):
    """One business row that the job made."""

    artifact_type: str
    artifact_id: str


class JobResult(Body):
    """What a succeeded job made."""

    artifact_count: int
    artifacts: list[Artifact]


class JobStatus(Body):
    """ADR-003 7.2, frozen: exactly these members."""

    job_id: UUID
    job_type: str
    lifecycle_status: Status
    queue_name: str
    priority: int = Field(ge=0, le=100)
    progress: int = Field(ge=0, le=100)
    created_at: Instant
    started_at: Instant | None = None
    finished_at: Instant | None = None
    error_code: str | None = None
    public_error_message: PublicText | None = None
    result: JobResult | None = None

    def to_bytes(self) -> bytes:
        """The body; members without a value are left out."""
        return self.model_dump_json(by_alias=True, exclude_none=True).encode()


def job_status(job: JobView, artifacts: Sequence[ArtifactRef] | None = None) -> JobStatus:
    """The frozen response; ``artifacts`` are those of a succeeded job."""
    result = None
    if job.lifecycle_status == "succeeded" and artifacts is not None:
        listed = [
            Artifact(artifact_type=ref.artifact_type, artifact_id=ref.artifact_id)
            for ref in artifacts
        ]
        result = JobResult(artifact_count=len(listed), artifacts=listed)
    return JobStatus(
        job_id=job.id,
        job_type=job.job_type,
        lifecycle_status=job.lifecycle_status.value,
        queue_name=job.queue_name,
        priority=job.priority,
        progress=job.progress,
        created_at=job.created_at,
        started_at=job.started_at,
        finished_at=job.finished_at,
        error_code=job.error_code,
        public_error_message=job.public_error_message,
        result=result,
    )


class AdminJob(JobStatus):
    """What operators see of a job. ``internalErrorMessage`` is for SUPER_ADMIN alone (ADR-003 7.4)."""

    user_id: str
    target_type: str
    target_id: str
    wait_kind: str | None = None
    outcome: str | None = None
    progress_note: str | None = None
    attempt_count: int
    max_attempts: int
    epoch: int
    delivery_no: int
    idempotency_key: str | None = None
    credential_mode: str
    prompt_version: str | None = None
    schema_version: str
    output_schema_version: str
    output_hash: str | None = None
    retry_of_job_id: UUID | None = None
    cancel_requested_at: Instant | None = None
    available_at: Instant
    lock_until: Instant | None = None
    locked_by: str | None = None
    internal_error_message: str | None = None


def admin_job(
    job: JobView, *, internal: bool, artifacts: Sequence[ArtifactRef] | None = None
) -> AdminJob:
    """The operator's view; ``internal`` shows the error text that is for engineers."""
    own = (name for name in AdminJob.model_fields if name not in JobStatus.model_fields)
    more = {name: getattr(job, name) for name in own}
    if not internal:
        more["internal_error_message"] = None
    return AdminJob(**dict(job_status(job, artifacts)) | more)
