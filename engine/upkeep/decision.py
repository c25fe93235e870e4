"""What is to happen to a job whose time for a look has come: a pure decision, tested as a table."""

from __future__ import annotations

from enum import StrEnum

from engine.lifecycle.states import TIMED_WAITS
from engine.lifecycle.views import Overdue
from registry.job import FINAL_STATUSES, LifecycleStatus, WaitKind


class Remedy(StrEnum):
    """What upkeep does with a job."""

    #: Its lease lives, it waits for a person, or it has ended: look again later, if at all.
    LEAVE = "leave"
    #: Its worker was lost: clear the lease and deliver it again.
    TAKE_OVER = "take_over"
    #: Its worker was lost and no attempts are left.
    END_FAILED = "end_failed"
    #: Its worker was lost after a cancel was asked.
    END_CANCELLED = "end_cancelled"
    #: Nobody holds it: deliver it again unless a delivery is on its way or a ticket is alive.
    CHECK_DELIVERY = "check_delivery"


def remedy(job: Overdue) -> Remedy:
    """The remedy for ``job``, as it was read; every write repeats its condition (WL-3)."""
    if LifecycleStatus(job.lifecycle_status) in FINAL_STATUSES or job.leased:
        return Remedy.LEAVE
    if job.leased is None:
        waits = job.wait_kind is not None and WaitKind(job.wait_kind) not in TIMED_WAITS
        return Remedy.LEAVE if waits else Remedy.CHECK_DELIVERY
    if job.cancelling:
        return Remedy.END_CANCELLED
    return Remedy.END_FAILED if job.attempt_count >= job.max_attempts else Remedy.TAKE_OVER
