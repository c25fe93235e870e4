"""WorkerProcess: one event loop that holds hundreds of jobs, and the threads around it.

    per queue ....... a fetcher, with a thread for its blocking look at Redis and its claims
    database pool ... short SQL stages and projectors
    heartbeat ....... a thread with a connection of its own
    recovery ........ tickets whose executions ended go back to their place; upkeep heals rows. Both work
                      without any other process (WL-6)

Stopping (WL-17): claim nothing more, let running jobs finish within the grace, then hand the rest back. A
second stop hands back at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any
from uuid import UUID

from engine.lifecycle.lease import Lease
from engine.observe.readiness import Progress
from engine.observe.tracing import processing
from engine.pipeline.batcher import Batcher
from engine.pipeline.complete import SETTLEMENTS
from engine.pipeline.engine import AiJobExecutionEngine
from engine.pipeline.heartbeat import Heartbeat
from engine.pipeline.prepare import Preparer
from engine.pipeline.work import Abort, Work
from engine.upkeep.upkeep import Upkeep
from engine.worker.eventloop import run_to_end
from engine.worker.fetcher import Fetcher, Slot
from engine.worker.loops import watched_loop
from engine.worker.pauses import Pauses
from engine.worker.tickets import Tickets
from outbox.base.heap import settle_heap
from outbox.base.loop import Loop
from outbox.base.points import Point, point
from outbox.base.telemetry import Telemetry
from outbox.errors import TransportError
from outbox.transports.base import Delivery, Settlement, Transport
from registry.queues import QueueSpec

_log = logging.getLogger("aijobs.worker")

#: Outputs that may wait for their commit before no more work is claimed.
MAX_FINISHING = 512
#: How long handing back may take before the process goes all the same, in s.
HAND_BACK_S = 10.0
#: How often Redis is asked for cancel hints of running jobs, in ms.
WATCH_MS = 1_000
#: How often Redis is asked for ended executions and due deferred tickets, in ms.
RECOVERY_MS = 1_000


class WorkerProcess:
    """Runs the jobs of some queues until it is stopped."""

    def __init__(
        self,
        *,
        name: str,
        queues: Mapping[QueueSpec, int],
        transport: Transport,
        pauses: Pauses,
        make_preparer: Callable[[Callable[[Lease], bool]], Preparer],
        make_engine: Callable[[ThreadPoolExecutor, asyncio.AbstractEventLoop], AiJobExecutionEngine],
        make_heartbeat: Callable[..., Heartbeat],
        close: Callable[[], Any],
        telemetry: Telemetry,
        upkeep: Upkeep,
        upkeep_ms: int,
        db_threads: int,
        grace_ms: int,
        progress: Progress | None = None,
    ) -> None:
        """``queues`` maps each queue to its concurrency in this process; ``progress`` is told of every round."""
        self.name = name
        self._progress = progress or Progress()
        self._queues = dict(queues)
        self._transport = transport
        self._pauses = pauses
        self._make_preparer = make_preparer
        self._make_engine = make_engine
        self._make_heartbeat = make_heartbeat
        self._close = close
        self._telemetry = telemetry
        self._upkeep = upkeep
        self._upkeep_ms = upkeep_ms
        self._db_threads = db_threads
        self._grace_s = grace_ms / 1000
        self._running: dict[UUID, Work] = {}
        self._tasks: set[asyncio.Future[None]] = set()
        self._stops = 0
        self._handed_back = False
        self._stop_asked = asyncio.Event()
        #: Set whenever a job has ended or a stop was asked.
        self._news = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ready = threading.Event()

    # -------------------------------------------------------------- from outside

    @property
    def in_hand(self) -> int:
        """How many jobs this process holds right now."""
        return len(self._running)

    def run(self, *, burst: bool = False) -> bool:
        """Work until stopped, or with ``burst`` until the queues are empty.

        Returns whether everything in hand was finished; False when jobs had to be handed back.
        """
        settle_heap()
        return run_to_end(self._main(burst), leaving=self.stop)

    def wait_ready(self, timeout_s: float) -> bool:
        """Wait until the process fetches; for whoever runs it on a thread."""
        return self._ready.wait(timeout_s)

    def stop(self) -> None:
        """The first call drains; another one hands running jobs back at once. Safe from any thread or signal."""
        self._stops += 1
        if self._loop is not None:
            # A loop that has been closed in the meantime has nothing left to stop.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._tell_stop)

    def _tell_stop(self) -> None:
        self._stop_asked.set()
        self._news.set()

    # -------------------------------------------------------------- the life of the process

    async def _main(self, burst: bool) -> bool:
        self._loop = asyncio.get_running_loop()
        threads = ThreadPoolExecutor(self._db_threads, thread_name_prefix="aijobs-db")
        engine = self._make_engine(threads, self._loop)
        tickets = Tickets(self._transport, worker=self.name, telemetry=self._telemetry)
        redis_thread = ThreadPoolExecutor(1, thread_name_prefix="aijobs-tickets")
        settling: Batcher[tuple[Delivery, Settlement], bool] = Batcher(
            "tickets", tickets.settle, executor=redis_thread
        )
        fetching = ThreadPoolExecutor(len(self._queues), thread_name_prefix="aijobs-fetch")
        fetchers = [
            self._fetcher(engine, tickets, settling, fetching, queue, slots)
            for queue, slots in self._queues.items()
        ]
        heartbeat = self._make_heartbeat(
            worker=self.name, running=lambda: list(self._running.values()), stop=self._trip
        )
        loops = self._start_loops(heartbeat)
        beating = asyncio.create_task(self._progress.beat("events"))
        try:
            await self._fetch_until_stopped(fetchers, burst)
            await self._drain()
            await settling.drain()
        finally:
            beating.cancel()
            for loop in loops:
                loop.stop()
            await asyncio.to_thread(self._end_loops, loops)
            heartbeat.close()
            for pool in (fetching, redis_thread, threads):
                pool.shutdown(wait=True)
            await self._close_quietly()
        return not self._handed_back

    async def _fetch_until_stopped(self, fetchers: Sequence[Fetcher], burst: bool) -> None:
        self._announce()
        tasks = [asyncio.create_task(fetcher.run(burst=burst)) for fetcher in fetchers]
        asked: asyncio.Future[Any] = asyncio.create_task(self._stop_asked.wait())
        if self._stops:
            self._stop_asked.set()
        self._ready.set()
        everyone: asyncio.Future[Any] = asyncio.gather(*tasks)
        try:
            await asyncio.wait({everyone, asked}, return_when=asyncio.FIRST_COMPLETED)
            for fetcher in fetchers:
                fetcher.stop()
            await everyone
        finally:
            asked.cancel()

    async def _drain(self) -> None:
        """Wait for running jobs; hand back those that the grace, or a second stop, does not leave time for."""
        point(Point.SHUTDOWN_DRAINING)
        await self._until_idle(self._grace_s, patient=lambda: self._stops < 2)
        self._handed_back = bool(self._running)
        if self._handed_back:
            await self._hand_back()

    async def _hand_back(self) -> None:
        point(Point.SHUTDOWN_BEFORE_HAND_BACK)
        for work in list(self._running.values()):
            work.switch.trip(Abort.SHUTDOWN)
        await self._until_idle(HAND_BACK_S, patient=lambda: True)
        for task in list(self._tasks):
            # The database cannot be reached: what is left here ends with its lease.
            task.cancel()
        point(Point.SHUTDOWN_AFTER_HAND_BACK)

    async def _until_idle(self, seconds: float, *, patient: Callable[[], bool]) -> None:
        """Until nothing runs, the time is up, or ``patient`` says no more; woken by every end and stop."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while self._running and patient() and (left := deadline - loop.time()) > 0:
            self._news.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), left)

    # -------------------------------------------------------------- jobs

    def _fetcher(
        self,
        engine: AiJobExecutionEngine,
        tickets: Tickets,
        settling: Batcher[tuple[Delivery, Settlement], bool],
        fetching: Executor,
        queue: QueueSpec,
        concurrency: int,
    ) -> Fetcher:
        def start(work: Work) -> None:
            task = asyncio.ensure_future(self._work(engine, settling, fetcher, work))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        fetcher = Fetcher(
            queue=queue,
            concurrency=concurrency,
            transport=self._transport,
            preparer=self._make_preparer(self._in_hand),
            tickets=tickets,
            pauses=self._pauses,
            thread=fetching,
            start=start,
            busy=lambda: engine.finishing > MAX_FINISHING,
            telemetry=self._telemetry,
            worker=self.name,
            progress=self._progress,
        )
        return fetcher

    async def _work(
        self,
        engine: AiJobExecutionEngine,
        settling: Batcher[tuple[Delivery, Settlement], bool],
        fetcher: Fetcher,
        work: Work,
    ) -> None:
        slot = Slot(fetcher)
        self._hold(work)
        try:
            with processing(work.job, _traceparent(work), attempt_no=work.claim.attempt_no):
                ending = await engine.run(work, executed=slot.free, moved=self._hold)
            point(Point.WORKER_AFTER_COMMIT)
            if work.delivery is not None:
                settling.submit((work.delivery, SETTLEMENTS[ending]))
        except Exception:  # noqa: BLE001 - one job's trouble must not end the others'
            _log.exception("a job could not be brought to an end here; its lease will end")
        finally:
            self._let_go(work)
            slot.free()

    def _hold(self, work: Work) -> None:
        before = self._running.get(work.job.id)
        if before is not None and before.switch is not work.switch:
            # Our own earlier claim outlived its lease and we have just taken the job over from ourselves.
            before.switch.trip(Abort.FENCED)
        self._running[work.job.id] = work

    def _let_go(self, work: Work) -> None:
        held = self._running.get(work.job.id)
        if held is not None and held.switch is work.switch:
            del self._running[work.job.id]
            self._news.set()

    def _in_hand(self, lease: Lease) -> bool:
        held = self._running.get(lease.job_id)
        return held is not None and held.lease == lease

    # -------------------------------------------------------------- loops beside the work

    def _start_loops(self, heartbeat: Heartbeat) -> list[Loop]:
        interval = min(queue.heartbeat_ms for queue in self._queues)
        rounds: list[tuple[str, Callable[[], bool], int]] = [
            ("heartbeat", heartbeat.run_once, interval),
            ("watch", heartbeat.watch, WATCH_MS),
            # Also what brings deferred deliveries back, whose waits begin at a second.
            ("recovery", self._recover, RECOVERY_MS),
            ("upkeep", self._upkeep.run_once, self._upkeep_ms),
        ]
        loops = [watched_loop(self._progress, *parts) for parts in rounds]
        for loop in loops:
            loop.start()
        return loops

    @staticmethod
    def _end_loops(loops: Sequence[Loop]) -> None:
        for loop in loops:
            loop.join(5)

    def _trip(self, work: Work, reason: Abort) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stop_work, work, reason)

    def _stop_work(self, work: Work, reason: Abort) -> None:
        held = self._running.get(work.job.id)
        # What was said of an earlier attempt's lease says nothing of the present one.
        if held is not None and held.lease == work.lease and not (reason is Abort.FENCED and held.switch.moving):
            held.switch.trip(reason)

    def _recover(self) -> bool:
        for queue in self._queues:
            found = self._transport.recover(queue.name)
            if found:
                self._telemetry.emit("ticket.recovered", found, queue=queue.name)
        return False

    def _announce(self) -> None:
        try:
            self._transport.register_worker(self.name, [queue.name for queue in self._queues])
        except TransportError as error:
            # Heartbeats announce it as soon as Redis is there.
            _log.debug("not announced: %s", error.code)

    async def _close_quietly(self) -> None:
        try:
            await asyncio.to_thread(self._transport.unregister_worker, self.name)
        except TransportError as error:
            _log.debug("not unregistered: %s", error.code)
        result = self._close()
        if asyncio.iscoroutine(result):
            await result


def _traceparent(work: Work) -> str | None:
    return None if work.delivery is None else work.delivery.ticket.traceparent
