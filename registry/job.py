"""The words for a job's state, and the read-only view of a job that handlers and projectors see."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final
from uuid import UUID


class LifecycleStatus(StrEnum):
    """Where a job is in its life; the last three are final and never change (design 6)."""

    #: Created and waiting for a worker to claim it; the only first state.
    QUEUED = "queued"
    #: Claimed at least once: being worked on, parked, or waiting for a take-over.
    RUNNING = "running"
    #: Its output, artifacts and usage are committed.
    SUCCEEDED = "succeeded"
    #: It ended without an output; a manual retry is a new job.
    FAILED = "failed"
    #: It ended because somebody asked, before an output was committed.
    CANCELLED = "cancelled"


#: States that are left by no transition.
FINAL_STATUSES: Final = frozenset(
    {LifecycleStatus.SUCCEEDED, LifecycleStatus.FAILED, LifecycleStatus.CANCELLED}
)


class WaitKind(StrEnum):
    """What a parked running job waits for; it holds neither lease nor slot meanwhile (design 6)."""

    #: A person's yes or no.
    APPROVAL = "approval"
    #: The answer of a tool that works elsewhere.
    TOOL = "tool"
    #: The end of a backoff.
    RETRY = "retry"
    #: The moment a provider's rate limit allows the next call.
    RATE = "rate"
    #: A ticket: the redelivery is written and a worker is to come.
    DELIVERY = "delivery"


class Outcome(StrEnum):
    """How a final job ended, more exactly than its lifecycle status says (design 6)."""

    #: Succeeded.
    OK = "ok"
    #: Failed for a known reason.
    ERROR = "error"
    #: Failed, and whether a foreign side effect happened is unknown.
    INDETERMINATE = "indeterminate"
    #: Failed because a wait or the input ran out of time.
    EXPIRED = "expired"
    #: Cancelled.
    CANCELLED = "cancelled"


class StartReason(StrEnum):
    """Why a claim began; the first three count as attempts (design 2)."""

    #: The job had never been started.
    FIRST = "first"
    #: An attempt before it failed.
    RETRY = "retry"
    #: The worker before it was lost with the job in hand.
    CRASH = "crash"
    #: An approval, a tool's answer or a hand-back let it go on.
    RESUME = "resume"
    #: A rate limit has passed.
    RATE = "rate"

    @property
    def counts_as_attempt(self) -> bool:
        """Whether a claim begun for this reason uses one of the job's attempts."""
        return self in _ATTEMPTS


_ATTEMPTS: Final = frozenset({StartReason.FIRST, StartReason.RETRY, StartReason.CRASH})


@dataclass(frozen=True, slots=True)
class JobView:
    """One job's row as it was read: no input, no output. Times are UTC and timezone-aware.

    Its repr leaves out who it belongs to and what people wrote, so that it may stand in a log.
    """

    id: UUID
    user_id: str = field(repr=False)
    job_type: str
    target_type: str
    target_id: str
    queue_name: str
    #: 0 is the top, 100 the bottom.
    priority: int
    lifecycle_status: LifecycleStatus
    wait_kind: WaitKind | None
    outcome: Outcome | None
    #: 0 to 100.
    progress: int
    progress_note: str | None = field(repr=False)
    attempt_count: int
    max_attempts: int
    #: Raised by every claim and take-over; what fences a late worker.
    epoch: int
    delivery_no: int
    idempotency_key: str | None = field(repr=False)
    credential_mode: str
    credential_id: str | None = field(repr=False)
    prompt_version: str | None
    #: Version of the input model that the snapshot was validated with.
    schema_version: str
    output_schema_version: str
    output_hash: str | None
    error_code: str | None
    #: For the end user: no path, address, key or stack.
    public_error_message: str | None
    internal_error_message: str | None = field(repr=False)
    retry_of_job_id: UUID | None
    cancel_requested_at: datetime | None
    available_at: datetime
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    lock_until: datetime | None
    locked_by: str | None

    @property
    def is_final(self) -> bool:
        """Whether the job has ended, which nothing changes any more."""
        return self.lifecycle_status in FINAL_STATUSES
