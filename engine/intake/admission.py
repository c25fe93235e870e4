"""Limits per user, judged under the lock of the user's counter rows, after the idempotent look-up (X76).

Off by default, and then without a single statement.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from engine.errors import CreateError, QuotaExceededError, TooManyJobsError
from engine.intake.models import ADMISSION_COUNTER
from engine.lifecycle import views
from engine.lifecycle.values import NewJob
from outbox.base.bulk import RowInsert
from outbox.base.canonical import identity_digest
from outbox.base.clock import DatabaseClock
from outbox.base.ids import new_id
from registry.job import LifecycleStatus

_C = ADMISSION_COUNTER.c
_OPEN = (LifecycleStatus.QUEUED, LifecycleStatus.RUNNING)
#: The counter that is only a lock: unfinished jobs are counted themselves.
_OPEN_WINDOW = "open"

_INSERT = RowInsert(ADMISSION_COUNTER, ["id", "user_id", "window", "digest", "used"], unless_exists="digest")
_LOCK = sa.select(_C.used).where(_C.digest == sa.bindparam("row_digest", type_=_C.digest.type)).with_for_update()
_ADD = (
    sa.update(ADMISSION_COUNTER)
    .where(_C.digest == sa.bindparam("row_digest", type_=_C.digest.type))
    .values(used=_C.used + sa.bindparam("more", type_=sa.Integer()))
)


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one user may have; None is no limit. Days and months are UTC."""

    max_open_jobs: int | None = None
    daily_quota: int | None = None
    monthly_quota: int | None = None


@dataclass(frozen=True, slots=True)
class Locked:
    """The counters of some users, locked until the transaction ends; ``used`` by user and window."""

    now: datetime
    used: Mapping[tuple[str, str], int]


class Admission:
    """Admits jobs within :class:`Limits`."""

    def __init__(self, limits: Limits, clock: DatabaseClock) -> None:
        self._limits = limits
        self._clock = clock

    @property
    def is_off(self) -> bool:
        """Whether there is no limit at all: then nothing here is to be called."""
        return self._limits == Limits()

    def lock(self, conn: sa.Connection, users: Iterable[str]) -> Locked:
        """Lock the counters of ``users``; whoever makes a job for one of them meanwhile has to wait."""
        now = self._clock.read(conn)
        # In one order, so that two callers with many users cannot lock each other out.
        keys = [(user_id, window) for user_id in sorted(set(users)) for window in self._windows(now)]
        return Locked(now, {key: _lock(conn, *key) for key in keys})

    def admit(self, conn: sa.Connection, counters: Locked, jobs: Sequence[NewJob]) -> None:
        """Charge ``jobs``, or raise :class:`TooManyJobsError` or :class:`QuotaExceededError`.

        Only jobs that are about to be made count, and a refusal writes nothing.
        """
        wanted = sorted(Counter(job.user_id for job in jobs).items())
        windows = self._windows(counters.now)
        for user_id, more in wanted:
            for window, limit in windows.items():
                self._check(conn, counters, user_id, window, limit, more)
        for user_id, more in wanted:
            for window in windows.keys() - {_OPEN_WINDOW}:
                conn.execute(_ADD, {"row_digest": _digest(user_id, window), "more": more})

    def _windows(self, now: datetime) -> dict[str, int]:
        """The windows that are limited, and how."""
        limits = {
            _OPEN_WINDOW: self._limits.max_open_jobs,
            f"d:{now:%Y-%m-%d}": self._limits.daily_quota,
            f"m:{now:%Y-%m}": self._limits.monthly_quota,
        }
        return {window: limit for window, limit in limits.items() if limit is not None}

    def _check(
        self, conn: sa.Connection, counters: Locked, user_id: str, window: str, limit: int, more: int
    ) -> None:
        if window != _OPEN_WINDOW:
            if counters.used[user_id, window] + more > limit:
                raise _over(window, limit, counters.now)
        elif _open_jobs(conn, user_id, limit) + more > limit:
            raise TooManyJobsError(f"more than {limit} unfinished jobs of one user", limit=limit)


def _open_jobs(conn: sa.Connection, user_id: str, limit: int) -> int:
    mine = views.JobFilter(statuses=_OPEN, user_id=user_id)
    # A caller's snapshot may be older than the jobs made since; a locking read looks past it (DB-2).
    stale = conn.dialect.name in ("mysql", "mariadb") and conn.get_isolation_level() != "READ COMMITTED"
    return views.count(conn, mine, limit=limit + 1, locking=stale)


def _lock(conn: sa.Connection, user_id: str, window: str) -> int:
    digest = _digest(user_id, window)
    row = {"id": new_id(), "user_id": user_id, "window": window, "digest": digest, "used": 0}
    _INSERT.execute(conn, [row])
    return int(conn.execute(_LOCK, {"row_digest": digest}).scalar_one())


def _digest(user_id: str, window: str) -> bytes:
    return identity_digest("admission", user_id, window)


def _over(window: str, limit: int, now: datetime) -> CreateError:
    span = "day" if window.startswith("d:") else "month"
    return QuotaExceededError(f"the quota of {limit} jobs a {span} is used up", limit=limit, window=span, at=now)
