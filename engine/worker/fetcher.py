"""From free slots to claimed work: one queue, as many jobs as there are free slots, in one go."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from concurrent.futures import Executor

from engine.observe.readiness import SILENT_S, Progress
from engine.pipeline.prepare import Prepared, Preparer
from engine.pipeline.work import Work
from engine.worker.pauses import Pauses
from engine.worker.tickets import Tickets
from outbox.base.backoff import exponential
from outbox.base.points import Point, point
from outbox.base.telemetry import Telemetry
from outbox.errors import reason_of
from outbox.transports.base import MAX_CLAIM, Delivery, Settlement, Transport
from registry.errors import AiJobsError
from registry.queues import QueueSpec

_log = logging.getLogger("aijobs.worker")

#: Longest blocking look at an empty queue, in ms; a stop ends it.
WAIT_MS = 1_000

#: Jobs that are claimed at once, at first and at least, and how many more each time that slots were left over.
#: What is claimed together starts together, and calls to a model then end together, all of their slots waiting for
#: one claim. Few at a time keep them apart; a worker whose slots are free again at once soon takes many.
FIRST_CLAIM, SMALLEST_CLAIM, MORE = 16, 8, 8

#: Rounds in a row that may fail before a burst gives up; a daemon never does.
BURST_FAILURES = 5
#: How often a paused queue is asked for again, in s.
PAUSED_S = 1.0


class Slot:
    """A slot is freed once: when the handler has returned, or when the job has ended otherwise."""

    def __init__(self, fetcher: Fetcher) -> None:
        self._fetcher: Fetcher | None = fetcher

    def free(self) -> None:
        """Give it back, if it was not given back before."""
        if self._fetcher is not None:
            self._fetcher.release()
            self._fetcher = None


class Fetcher:
    """Claims work for one queue and hands it to ``start``; lives on the event loop."""

    def __init__(
        self,
        *,
        queue: QueueSpec,
        concurrency: int,
        transport: Transport,
        preparer: Preparer,
        tickets: Tickets,
        pauses: Pauses,
        thread: Executor,
        start: Callable[[Work], None],
        busy: Callable[[], bool],
        telemetry: Telemetry,
        worker: str,
        progress: Progress | None = None,
    ) -> None:
        """``thread`` is this fetcher's own; ``busy`` says that finished work is piling up."""
        self._progress = progress or Progress()
        self._loop = f"fetch {queue.name}"
        self.queue = queue
        self.concurrency = concurrency
        self._free = concurrency
        self._limit = FIRST_CLAIM
        self._transport = transport
        self._preparer = preparer
        self._tickets = tickets
        self._pauses = pauses
        self._thread = thread
        self._start = start
        self._busy = busy
        self._telemetry = telemetry
        self._worker = worker
        self._changed = asyncio.Event()
        self._stopping = False
        self._failures = 0

    def release(self) -> None:
        """A slot is free again."""
        self._free += 1
        self._changed.set()

    def stop(self) -> None:
        """Claim nothing more."""
        self._stopping = True
        self._changed.set()

    async def run(self, *, burst: bool = False) -> None:
        """Fetch until stopped; with ``burst`` until the queue is empty, or paused, and nothing of it runs."""
        while not self._stopping:
            if self._free <= 0 or self._busy():
                self._progress.rest(self._loop)
                await self._pause(0.05 if self._busy() else None)
                continue
            self._progress.mark(self._loop, within_s=SILENT_S)
            found = await self._fetch(burst)
            if burst and not found and self._free == self.concurrency and not await self._more():
                return

    async def _fetch(self, burst: bool) -> bool:
        """One round; returns whether there was anything, or may have been."""
        loop = asyncio.get_running_loop()
        wanted = min(self._free, self._limit)
        try:
            deliveries, prepared = await loop.run_in_executor(self._thread, self._take, wanted)
        except Exception as error:
            if burst and self._failures >= BURST_FAILURES:
                raise
            await self._back_off(error)
            return True
        self._failures = 0
        self._free -= len(prepared.claimed)
        for work in prepared.claimed:
            self._start(work)
        self._adapt(full=len(deliveries) == wanted)
        if self._pauses.was_paused(self.queue.name):
            await self._pause(PAUSED_S)
        return bool(deliveries)

    def _adapt(self, *, full: bool) -> None:
        """Take more at once while slots are left over, and less again when they are all taken."""
        if self._free <= 0:
            self._limit = max(SMALLEST_CLAIM, self._limit // 2)
        elif full:
            self._limit = min(MAX_CLAIM, self._limit + MORE)

    async def _back_off(self, error: Exception) -> None:
        self._failures += 1
        code = error.code if isinstance(error, AiJobsError) else type(error).__name__
        self._telemetry.emit("fetch.failed", code=code, reason=reason_of(error), queue=self.queue.name)
        await self._pause(exponential(self._failures, base_ms=100, limit_ms=5_000) / 1000)

    def _take(self, wanted: int) -> tuple[list[Delivery], Prepared]:
        """Runs on this fetcher's thread: tickets, then the database, then what is not to be run."""
        if self._pauses.is_paused(self.queue.name):
            return [], Prepared()
        deliveries = self._transport.claim(
            self.queue.name, wanted, self._worker, self.queue.lease_ms,
            wait_ms=WAIT_MS, stopped=lambda: self._stopping,
        )  # fmt: skip
        if self._stopping:
            # They go to another worker at once.
            self._tickets.defer([(delivery, 0) for delivery in deliveries])
            return [], Prepared()
        if not deliveries:
            return [], Prepared()
        point(Point.WORKER_AFTER_TICKET)
        try:
            prepared = self._preparer.prepare(self.queue, deliveries)
        except Exception:
            self._tickets.defer([(delivery, 1_000) for delivery in deliveries])
            raise
        if prepared.claimed:
            point(Point.WORKER_AFTER_CLAIM)
        if prepared.settled:
            self._tickets.settle([(delivery, Settlement.FINISHED) for delivery in prepared.settled])
        self._tickets.defer(prepared.deferred)
        return deliveries, prepared

    async def _more(self) -> bool:
        if self._pauses.was_paused(self.queue.name):
            return False
        loop = asyncio.get_running_loop()
        depth = await loop.run_in_executor(self._thread, self._transport.depth, [self.queue.name])
        return depth.get(self.queue.name, 0) > 0

    async def _pause(self, seconds: float | None) -> None:
        """Until a slot is freed or a stop is asked, at most ``seconds``."""
        self._changed.clear()
        if self._stopping or (self._free > 0 and seconds is None):
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), seconds)
