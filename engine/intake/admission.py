"""Limits per user, judged under the lock of the user's counter rows, after the idempotent look-up (X76).

Off by default, and then without a single statement.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from engine.errors import CreateError, QuotaExceededError, TooManyJobsError
from engine.intake.models import AdmissionCounter
from engine.lifecycle import views
from engine.lifecycle.values import NewJob
from outbox.base.bulk import RowInsert
from outbox.base.canonical import identity_digest
from outbox.base.clock import DatabaseClock
from outbox.base.ids import new_id
from registry.job import LifecycleStatus

_TABLE: sa.Table = AdmissionCounter.__table__  # type: ignore[assignment]
_C = _TABLE.c
_OPEN = (LifecycleStatus.QUEUED, LifecycleStatus.RUNNING)

_INSERT = RowInsert(_TABLE, ["id", "user_id", "window", "digest", "used"], unless_exists="digest")
_LOCK = sa.select(_C.used).where(_C.digest == sa.bindparam("row_digest", type_=_C.digest.type)).with_for_update()
_ADD = (
    sa.update(_TABLE)
    .where(_C.digest == sa.bindparam("row_digest", type_=_C.digest.type))
    .values(used=_C.used + sa.bindparam("more", type_=sa.Integer()))
)


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one user may have; None is no limit. Days and months are UTC."""

    max_open_jobs: int | None = None
    daily_quota: int | None = None
    monthly_quota: int | None = None


class Admission:
    """Admits jobs within :class:`Limits`."""

    def __init__(self, limits: Limits, clock: DatabaseClock) -> None:
        self._limits = limits
        self._clock = clock

    def admit(self, conn: sa.Connection, jobs: Sequence[NewJob]) -> None:
        """Raise :class:`TooManyJobsError` or :class:`QuotaExceededError` where ``jobs`` would break a limit.

        Only jobs that are about to be made count; the caller's transaction keeps the counters locked.
        """
        if self._limits == Limits():
            return
        now = self._clock.read(conn)
        # In one order, so that two callers with many users cannot lock each other out.
        for user_id, wanted in sorted(Counter(job.user_id for job in jobs).items()):
            self._admit_open(conn, user_id, wanted)
            self._admit_window(conn, user_id, f"d:{now:%Y-%m-%d}", self._limits.daily_quota, wanted, now)
            self._admit_window(conn, user_id, f"m:{now:%Y-%m}", self._limits.monthly_quota, wanted, now)

    def _admit_open(self, conn: sa.Connection, user_id: str, wanted: int) -> None:
        limit = self._limits.max_open_jobs
        if limit is None:
            return
        self._lock(conn, user_id, "open")
        mine = views.JobFilter(statuses=_OPEN, user_id=user_id)
        if views.count(conn, mine, limit=limit + 1) + wanted > limit:
            raise TooManyJobsError(f"more than {limit} unfinished jobs of one user", limit=limit)

    def _admit_window(
        self, conn: sa.Connection, user_id: str, window: str, limit: int | None, wanted: int, now: datetime
    ) -> None:
        if limit is None:
            return
        digest, used = self._lock(conn, user_id, window)
        if used + wanted > limit:
            raise _over(window, limit, now)
        conn.execute(_ADD, {"row_digest": digest, "more": wanted})

    @staticmethod
    def _lock(conn: sa.Connection, user_id: str, window: str) -> tuple[bytes, int]:
        digest = identity_digest("admission", user_id, window)
        row = {"id": new_id(), "user_id": user_id, "window": window, "digest": digest, "used": 0}
        _INSERT.execute(conn, [row])
        return digest, int(conn.execute(_LOCK, {"row_digest": digest}).scalar_one())


def _over(window: str, limit: int, now: datetime) -> CreateError:
    span = "day" if window.startswith("d:") else "month"
    return QuotaExceededError(f"the quota of {limit} jobs a {span} is used up", limit=limit, window=span, at=now)
