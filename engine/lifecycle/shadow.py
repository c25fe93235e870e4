"""ADR-114's names for a job's state: a read-only view of the columns (design 6, X01, X11, X15)."""

from __future__ import annotations

from registry.job import JobView, LifecycleStatus, StartReason, WaitKind

_FINAL = {
    LifecycleStatus.QUEUED: "PENDING",
    LifecycleStatus.SUCCEEDED: "COMPLETED",
    LifecycleStatus.FAILED: "FAILED",
    LifecycleStatus.CANCELLED: "CANCELLED",
}
_WAITING = {WaitKind.APPROVAL: "WAITING_APPROVAL", WaitKind.TOOL: "WAITING_TOOL"}


def run_state(job: JobView, start_reason: StartReason = StartReason.FIRST) -> str:
    """PENDING, RUNNING, WAITING_TOOL, WAITING_APPROVAL, RESUMED, COMPLETED, FAILED or CANCELLED.

    A running job that nobody holds shows as PENDING, as after ADR-114's reaper; one that an answer let go on
    (``start_reason`` is its row's) shows as RESUMED.
    """
    if job.lifecycle_status is not LifecycleStatus.RUNNING:
        return _FINAL[job.lifecycle_status]
    if job.wait_kind in _WAITING:
        return _WAITING[job.wait_kind]
    if job.lock_until is not None:
        return "RUNNING"
    return "RESUMED" if start_reason is StartReason.RESUME else "PENDING"
