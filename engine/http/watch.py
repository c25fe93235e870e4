"""Who waits for jobs: one look at the database for all of them, every so often, and only while somebody waits.

The database is the source. Redis wakes: a job that a worker has ended is looked at right away, and the others then only
now and then. A waiting request holds neither a thread nor a connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import anyio.to_thread

from engine.http.hearing import Hearing
from engine.lifecycle import views
from engine.observe.readiness import Progress
from outbox.base.db import UnitOfWork
from outbox.transports.base import EndedJobs
from registry.job import JobView

#: How often who follows a text in the making looks for more of it, in seconds.
PERIOD_S: Final = 0.1
#: Time from the beginning of a wait to its first look, in seconds; the next ones come ever later, until they are so
#: far apart while Redis tells of ended jobs, or while it does not.
FIRST_S: Final = 0.02
MAX_S: Final = 0.5
DEAF_MAX_S: Final = 0.1
_SLOWER: Final = 1.5
#: How long hints are gathered after a look, in seconds.
_TOGETHER_S: Final = 0.005
#: How long Redis is listened to after the last waiter has gone, in seconds.
_LINGER_S: Final = 10.0
#: Without a look for this long, somebody is kept waiting in vain; in seconds.
_SILENT_S: Final = 30.0
_LOOP: Final = "watch"
#: Jobs that one query asks about.
_AT_ONCE: Final = 400

_log = logging.getLogger("aijobs.http.watch")


def news_of(job: JobView) -> tuple[Any, ...]:
    """What a watcher wants to hear about; not the lease, which moves all the time."""
    return (
        job.lifecycle_status, job.wait_kind, job.epoch, job.progress, job.progress_note,
        job.cancel_requested_at, job.finished_at,
    )  # fmt: skip


class Watcher:
    """One request that waits for one job."""

    def __init__(self, job_id: UUID, watch: JobWatch) -> None:
        self.job_id = job_id
        self._watch = watch
        self._latest: JobView | None = None
        self._news = asyncio.Event()

    async def next(self, seen: JobView, timeout_s: float) -> JobView:
        """The job as soon as it differs from ``seen``, or as it was last seen after ``timeout_s``."""
        try:
            async with asyncio.timeout(timeout_s):
                while not self._knows_more_than(seen):
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            pass
        return self._latest or seen

    def _knows_more_than(self, seen: JobView) -> bool:
        if self._watch.closing:
            return True
        return self._latest is not None and news_of(self._latest) != news_of(seen)

    async def final(self, seen: JobView, timeout_s: float) -> JobView:
        """The job when it has ended, or as it was last seen after ``timeout_s``."""
        deadline = asyncio.get_running_loop().time() + timeout_s
        while not seen.is_final and not self._watch.closing:
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                break
            seen = await self.next(seen, left)
        return seen

    def tell(self, job: JobView | None) -> None:
        """Note what was read; None only wakes."""
        self._latest = job or self._latest
        self._news.set()


@dataclass(slots=True)
class _Pace:
    """When a job is to be looked at next: soon after somebody began to wait, then ever more rarely."""

    due: float
    #: The most that somebody wants to lie between two looks.
    within_s: float
    period_s: float = FIRST_S

    def slow_down(self, now: float, ceiling_s: float) -> None:
        self.due = now + min(self.period_s, self.within_s, ceiling_s)
        self.period_s = min(self.period_s * _SLOWER, MAX_S)


class JobWatch:
    """Reads the jobs that somebody waits for. Lives on one event loop."""

    def __init__(
        self,
        uow: UnitOfWork,
        *,
        listen: Callable[[], EndedJobs] | None = None,
        progress: Progress | None = None,
    ) -> None:
        """``listen`` begins to hear of ended jobs, which are then looked at without waiting for their time."""
        self._uow = uow
        self._listen = listen
        self._progress = progress or Progress()
        self._watchers: set[Watcher] = set()
        self._paces: dict[UUID, _Pace] = {}
        self._hints: set[UUID] = set()
        self._stir = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._hearing: Hearing | None = None
        self.closing = False

    @asynccontextmanager
    async def watch(self, job_id: UUID, *, within_s: float = MAX_S) -> AsyncIterator[Watcher]:
        """Look at ``job_id`` for as long as the block lasts; any change is seen ``within_s``, its end sooner."""
        watcher = Watcher(job_id, self)
        self._watchers.add(watcher)
        known = self._paces.get(job_id)
        within_s = within_s if known is None else min(within_s, known.within_s)
        self._paces[job_id] = _Pace(_now() + FIRST_S, within_s)
        self._stir.set()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="aijobs-watch")
        try:
            yield watcher
        finally:
            self._watchers.discard(watcher)
            if not any(other.job_id == job_id for other in self._watchers):
                self._paces.pop(job_id, None)

    def close(self) -> None:
        """Let everybody go who waits: the server stops. Call it on the watchers' own loop."""
        self.closing = True
        self._stir.set()
        for watcher in self._watchers:
            watcher.tell(None)

    # -------------------------------------------------------------- the task

    async def _run(self) -> None:
        self._hear()
        try:
            while not self.closing and await self._somebody():
                due = await self._due()
                if due:
                    await self._look(due)
                    # What comes in the meantime is looked at together.
                    await asyncio.sleep(_TOGETHER_S)
        finally:
            self._progress.rest(_LOOP)
            if self._hearing is not None:
                self._hearing.stop()
                self._hearing = None

    async def _somebody(self) -> bool:
        """Whether anybody waits, now or within a while: listening anew for each would be dear."""
        if self._watchers:
            return True
        self._progress.rest(_LOOP)
        self._stir.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stir.wait(), _LINGER_S)
        return bool(self._watchers)

    async def _due(self) -> list[UUID]:
        """The jobs whose time has come, or that are said to have ended; empty when somebody came or went."""
        now = _now()
        hinted = self._hints & self._paces.keys()
        self._hints.clear()
        due = hinted | {job_id for job_id, pace in self._paces.items() if pace.due <= now}
        if not due and self._paces:
            self._stir.clear()
            next_at = min(pace.due for pace in self._paces.values())
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stir.wait(), max(0.0, next_at - now))
        return sorted(due)

    async def _look(self, job_ids: Sequence[UUID]) -> None:
        now, ceiling_s = _now(), MAX_S if self._hears else DEAF_MAX_S
        for job_id in job_ids:
            self._paces[job_id].slow_down(now, ceiling_s)
        try:
            found = await anyio.to_thread.run_sync(self._read, job_ids)
        except Exception as error:  # noqa: BLE001 - whoever waits has a time limit of its own
            _log.warning("jobs could not be read: %s", type(error).__name__)
            return
        self._progress.mark(_LOOP, within_s=_SILENT_S)
        for watcher in self._watchers:
            if watcher.job_id in found:
                watcher.tell(found[watcher.job_id])

    def _read(self, ids: Sequence[UUID]) -> dict[UUID, JobView]:
        found: dict[UUID, JobView] = {}
        for start in range(0, len(ids), _AT_ONCE):
            some = ids[start : start + _AT_ONCE]
            found |= self._uow.read(lambda conn, some=some: views.load(conn, some))  # type: ignore[misc]
        return found

    # -------------------------------------------------------------- hints

    @property
    def _hears(self) -> bool:
        return self._hearing is not None and self._hearing.live

    def _hear(self) -> None:
        if self._listen is not None:
            self._hearing = Hearing(self._listen, self._take_hint)
            self._hearing.start()

    def _take_hint(self, job_ids: frozenset[UUID]) -> None:
        if not self._paces.keys().isdisjoint(job_ids):
            self._hints |= job_ids & self._paces.keys()
            self._stir.set()


def _now() -> float:
    return asyncio.get_running_loop().time()
