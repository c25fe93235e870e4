"""The view of a job, and the words for its states."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields, replace
from datetime import UTC, datetime
from uuid import UUID

import pytest

from registry import FINAL_STATUSES, JobView, LifecycleStatus, Outcome, StartReason, WaitKind

MOMENT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
JOB = JobView(
    id=UUID("01938e2c-0000-7000-8000-000000000001"),
    user_id="the-user",
    job_type="quiz_generation",
    target_type="document",
    target_id="d-1",
    queue_name="ai-background",
    priority=50,
    lifecycle_status=LifecycleStatus.QUEUED,
    wait_kind=None,
    outcome=None,
    progress=0,
    progress_note="the-note",
    attempt_count=0,
    max_attempts=3,
    epoch=0,
    delivery_no=1,
    idempotency_key="the-key",
    credential_mode="platform_key",
    credential_id="the-credential",
    prompt_version=None,
    schema_version="1",
    output_schema_version="1",
    output_hash=None,
    error_code=None,
    public_error_message=None,
    internal_error_message="the-stack",
    retry_of_job_id=None,
    cancel_requested_at=None,
    available_at=MOMENT,
    created_at=MOMENT,
    started_at=None,
    finished_at=None,
    lock_until=None,
    locked_by=None,
)


@pytest.mark.parametrize(
    ("status", "final"),
    [
        (LifecycleStatus.QUEUED, False),
        (LifecycleStatus.RUNNING, False),
        (LifecycleStatus.SUCCEEDED, True),
        (LifecycleStatus.FAILED, True),
        (LifecycleStatus.CANCELLED, True),
    ],
)
def test_a_job_is_final_in_the_three_states_that_nothing_leaves(
    status: LifecycleStatus, final: bool
) -> None:
    assert replace(JOB, lifecycle_status=status).is_final is final
    assert (status in FINAL_STATUSES) is final


def test_only_first_starts_retries_and_crashes_use_an_attempt() -> None:
    counting = {reason for reason in StartReason if reason.counts_as_attempt}
    assert counting == {StartReason.FIRST, StartReason.RETRY, StartReason.CRASH}


def test_the_words_are_the_ones_that_rows_and_answers_carry() -> None:
    assert list(LifecycleStatus) == ["queued", "running", "succeeded", "failed", "cancelled"]
    assert list(WaitKind) == ["approval", "tool", "retry", "rate", "delivery"]
    assert list(Outcome) == ["ok", "error", "indeterminate", "expired", "cancelled"]
    assert list(StartReason) == ["first", "retry", "crash", "resume", "rate"]


def test_a_printed_view_tells_nothing_about_people() -> None:
    printed = repr(JOB)
    for private in ("the-user", "the-note", "the-key", "the-credential", "the-stack"):
        assert private not in printed
    assert str(JOB.id) in printed


def test_a_view_carries_no_input_and_no_output_and_cannot_be_changed() -> None:
    names = {field.name for field in fields(JobView)}
    assert not names & {"payload", "input", "output", "snapshot", "content"}
    with pytest.raises(FrozenInstanceError):
        JOB.priority = 0  # type: ignore[misc]
