"""A checked request, ready to be inserted: everything slow or foreign is done before the transaction (CI-2)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from uuid import UUID

from engine.intake.checks import check_fields, check_overrides, check_payload, to_canonical
from engine.intake.commands import CreateJobInput, JobOverrides
from engine.lifecycle.snapshots import Snapshot
from engine.lifecycle.values import NewJob
from outbox.base.canonical import canonical_bytes, identity_digest, sha256
from outbox.base.ids import new_id
from outbox.events import EventType, NewEvent
from registry.definition import JobDefinition
from registry.job import JobView, LifecycleStatus


# Not frozen: a frozen one costs four times as much to make, and a call makes hundreds.
@dataclass(slots=True)
class Draft:
    """One job, its snapshot and its event."""

    job: NewJob
    snapshot: Snapshot
    snapshot_days: int
    event: NewEvent
    #: What a repeated key gets after a failure.
    on_failed: str

    def view(self, created_at: datetime, available_at: datetime) -> JobView:
        """The job as it stands right after its insert."""
        new = self.job
        return JobView(
            id=new.id, user_id=new.user_id, job_type=new.job_type, target_type=new.target_type,
            target_id=new.target_id, queue_name=new.queue_name, priority=new.priority,
            lifecycle_status=LifecycleStatus.QUEUED, wait_kind=None, outcome=None, progress=0,
            progress_note=None, attempt_count=0, max_attempts=new.max_attempts, epoch=0, delivery_no=1,
            idempotency_key=new.idempotency_key, credential_mode=new.credential_mode,
            credential_id=new.credential_id, prompt_version=new.prompt_version,
            schema_version=new.schema_version, output_schema_version=new.output_schema_version,
            output_hash=None, error_code=None, public_error_message=None, internal_error_message=None,
            retry_of_job_id=new.retry_of_job_id, cancel_requested_at=None, available_at=available_at,
            created_at=created_at, started_at=None, finished_at=None, lock_until=None, locked_by=None,
        )  # fmt: skip


def draft(
    definition: JobDefinition,
    wanted: CreateJobInput,
    *,
    payload_limit: int,
    traceparent: str | None = None,
    retry_of: UUID | None = None,
) -> Draft:
    """Check ``wanted`` against ``definition``; raises a :class:`CreateError` and writes nothing."""
    overrides = wanted.overrides or JobOverrides()
    check_fields(wanted)
    check_overrides(definition, overrides)
    value, content = check_payload(definition, wanted.payload, limit=payload_limit)
    stored = _redacted(definition, value, content)
    job = _job(definition, wanted, overrides, content, traceparent, retry_of)
    return Draft(
        job=job,
        snapshot=Snapshot(
            job.id, stored, sha256(stored), definition.input.schema_version, definition.security.redaction_version
        ),
        snapshot_days=definition.retention.snapshot_days,
        event=NewEvent(
            event_type=EventType.ENQUEUE, job_id=job.id, job_type=job.job_type, queue_name=job.queue_name,
            priority=job.priority, delivery_no=1, available_at=job.available_at, traceparent=traceparent,
        ),
        on_failed=definition.idempotency.on_failed,
    )  # fmt: skip


def key_digest(user_id: str, job_type: str, key: str) -> bytes:
    """What an idempotency key is compared by: exact bytes, scoped by user and type (CI-3, X42)."""
    return identity_digest("job", user_id, job_type, key)


def _redacted(definition: JobDefinition, value: object, content: bytes) -> bytes:
    redact = definition.security.redact_input
    return content if redact is None else to_canonical(redact(value))


def _job(
    definition: JobDefinition,
    wanted: CreateJobInput,
    overrides: JobOverrides,
    content: bytes,
    traceparent: str | None,
    retry_of: UUID | None,
) -> NewJob:
    key = wanted.idempotency_key
    priority = definition.queue.default_priority if overrides.priority is None else overrides.priority
    return NewJob(
        id=new_id(),
        user_id=wanted.user_id,
        job_type=definition.job_type,
        target_type=wanted.target_type,
        target_id=wanted.target_id,
        idempotency_key=key,
        idempotency_digest=None if key is None else key_digest(wanted.user_id, definition.job_type, key),
        request_fingerprint=_fingerprint(definition, wanted, overrides, content),
        queue_name=definition.queue.queue_name,
        priority=priority,
        max_attempts=definition.max_attempts,
        available_at=wanted.available_at,
        credential_mode=overrides.credential_mode or definition.credential.default_mode,
        credential_id=overrides.credential_id,
        prompt_version=overrides.prompt_version or definition.prompt_version,
        schema_version=definition.input.schema_version,
        output_schema_version=overrides.output_schema_version or definition.output.schema_version,
        retry_of_job_id=retry_of,
        traceparent=traceparent,
    )


def _fingerprint(
    definition: JobDefinition, wanted: CreateJobInput, overrides: JobOverrides, content: bytes
) -> bytes:
    """Type, target, input and overrides; not the time it may start, which a retry computes anew (CI-5)."""
    return identity_digest(definition.job_type, wanted.target_type, wanted.target_id, content, _chosen(overrides))


@lru_cache(maxsize=64)
def _chosen(overrides: JobOverrides) -> bytes:
    """The same few again and again, and mostly none."""
    return canonical_bytes({name: getattr(overrides, name) for name in JobOverrides.__dataclass_fields__})
