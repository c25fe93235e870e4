"""What creation reads back of a job: who holds a key, and what the database stamped."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from engine.lifecycle.values import NewJob
from registry.job import LifecycleStatus

_QUEUED = LifecycleStatus.QUEUED.value


class Birth(NamedTuple):
    """A row as creation sees it."""

    id: UUID
    idempotency_digest: bytes | None
    request_fingerprint: bytes
    lifecycle_status: str
    created_at: datetime
    available_at: datetime


def birth(row: Sequence[Any]) -> Birth:
    """A row of the columns above, whoever made it."""
    job_id, digest, fingerprint, *rest = row
    return Birth(job_id, None if digest is None else bytes(digest), bytes(fingerprint), *rest)


def born(jobs: Sequence[NewJob], rows: Sequence[Sequence[Any]]) -> list[Birth]:
    """Those of ``jobs`` that an insert of them answered for, with id and times: the rest is known.

    MariaDB answers with a row of somebody else's, too, where that one was in the way.
    """
    ours = {job.id: job for job in jobs}
    return [_born(job, *times) for job_id, *times in rows if (job := ours.get(job_id)) is not None]


def _born(job: NewJob, created_at: datetime, available_at: datetime) -> Birth:
    return Birth(job.id, job.idempotency_digest, job.request_fingerprint, _QUEUED, created_at, available_at)
