"""A worker's right to a job. Who holds none cannot call a write; a stale one changes nothing (WL-1)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from registry.job import StartReason


@dataclass(frozen=True, slots=True)
class Lease:
    """The claim of ``job_id`` with number ``epoch``; every write of this claim names both."""

    job_id: UUID
    epoch: int


def by_epoch(leases: Iterable[Lease]) -> dict[int, list[UUID]]:
    """The jobs of ``leases`` by their epochs: how a statement about many claims names them."""
    found: dict[int, list[UUID]] = {}
    for lease in leases:
        found.setdefault(lease.epoch, []).append(lease.job_id)
    return found


@dataclass(frozen=True, slots=True)
class Claim:
    """A job that has just been claimed: the lease, and what the start was for."""

    lease: Lease
    attempt_no: int
    start_reason: StartReason


class Refusal(StrEnum):
    """Why a delivery is not to be worked on; none of these is an error (WL-9)."""

    #: There is no such row (yet).
    MISSING = "missing"
    #: Another transaction holds the row at this moment.
    BUSY = "busy"
    #: The job has ended.
    FINAL = "final"
    #: A newer delivery of the job exists.
    STALE = "stale"
    #: Another claim holds a live lease.
    LEASED = "leased"
    #: Its time has not come: delayed, or parked until later.
    NOT_DUE = "not_due"
    #: It waits for an approval or a tool.
    WAITING = "waiting"
    #: The worker before was lost and no attempts are left; upkeep ends the job.
    EXHAUSTED = "exhausted"


class Fenced(StrEnum):
    """Why a write of a claim was refused."""

    #: Another claim holds the job now, or upkeep took it back.
    LOST = "lost"
    #: The job has ended.
    FINAL = "final"
    #: A cancel was requested and wins over the result.
    CANCELLED = "cancelled"
    #: The row is gone.
    MISSING = "missing"
