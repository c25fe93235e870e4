"""Who waits for jobs: one look at the database for all of them, every so often, and only while somebody waits.

The database is the source. A waiting request holds neither a thread nor a connection.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final
from uuid import UUID

import anyio.to_thread

from engine.lifecycle import views
from engine.observe.readiness import Progress
from outbox.base.db import UnitOfWork
from registry.job import JobView

#: Time between two looks, in seconds.
PERIOD_S: Final = 0.1
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


class JobWatch:
    """Reads the jobs that somebody waits for. Lives on one event loop."""

    def __init__(
        self, uow: UnitOfWork, *, period_s: float = PERIOD_S, progress: Progress | None = None
    ) -> None:
        self._uow = uow
        self._period_s = period_s
        self._progress = progress or Progress()
        self._watchers: set[Watcher] = set()
        self._task: asyncio.Task[None] | None = None
        self.closing = False

    @asynccontextmanager
    async def watch(self, job_id: UUID) -> AsyncIterator[Watcher]:
        """Look at ``job_id`` for as long as the block lasts."""
        watcher = Watcher(job_id, self)
        self._watchers.add(watcher)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="aijobs-watch")
        try:
            yield watcher
        finally:
            self._watchers.discard(watcher)

    def close(self) -> None:
        """Let everybody go who waits: the server stops. Call it on the watchers' own loop."""
        self.closing = True
        for watcher in self._watchers:
            watcher.tell(None)

    async def _run(self) -> None:
        while self._watchers and not self.closing:
            await asyncio.sleep(self._period_s)
            await self._look()
        self._progress.rest(_LOOP)

    async def _look(self) -> None:
        watchers = list(self._watchers)
        ids = sorted({watcher.job_id for watcher in watchers})
        try:
            found = await anyio.to_thread.run_sync(self._read, ids)
        except Exception as error:  # noqa: BLE001 - whoever waits has a time limit of its own
            _log.warning("jobs could not be read: %s", type(error).__name__)
            return
        self._progress.mark(_LOOP, within_s=_SILENT_S)
        for watcher in watchers:
            if watcher.job_id in found:
                watcher.tell(found[watcher.job_id])

    def _read(self, ids: Sequence[UUID]) -> dict[UUID, JobView]:
        found: dict[UUID, JobView] = {}
        for start in range(0, len(ids), _AT_ONCE):
            some = ids[start : start + _AT_ONCE]
            found |= self._uow.read(lambda conn, some=some: views.load(conn, some))  # type: ignore[misc]
        return found
