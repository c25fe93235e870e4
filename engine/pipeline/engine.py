"""AiJobExecutionEngine: the attempt loop over the stages.

    resolve -> execute -> project -> complete          one attempt
    a failed one is decided (retry.py) and settled (settle.py): again here, later, or never
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable
from concurrent.futures import Executor as Threads
from dataclasses import dataclass
from typing import TypeVar

from engine.errors import HandlerError, JobTimeout, ProviderOutcomeUnknown
from engine.lifecycle.lease import Claim
from engine.lifecycle.values import Failure
from engine.pipeline.batcher import Batcher
from engine.pipeline.complete import complete
from engine.pipeline.execute import Executor
from engine.pipeline.outages import persist
from engine.pipeline.project import Ending, Projection
from engine.pipeline.resolve import Resolver
from engine.pipeline.retry import Decision, Fail, Park, RetryInPlace, Situation, decide, describe
from engine.pipeline.settle import Settler
from engine.pipeline.work import Abort, Aborted, History, Produced, Resolved, Work
from engine.usage.repository import UsageRepository
from outbox.base.db import UnitOfWork
from outbox.base.points import Point, point
from outbox.base.telemetry import Telemetry

T = TypeVar("T")

_log = logging.getLogger("aijobs.engine")

@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """Times in ms; see ``engine.config.WorkerSettings``."""

    park_from_ms: int = 5_000
    max_retry_after_ms: int = 3_600_000
    #: Keep the text of a handler's own error in the job's row.
    keep_error_text: bool = False


class AiJobExecutionEngine:
    """Runs claimed work to its end; hundreds at a time on one event loop."""

    def __init__(
        self,
        *,
        uow: UnitOfWork,
        resolver: Resolver,
        executor: Executor,
        projection: Projection,
        settler: Settler,
        usage: UsageRepository,
        backoff_ms: Callable[[Work], int],
        threads: Threads,
        telemetry: Telemetry,
        options: EngineOptions | None = None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._uow = uow
        self._resolver = resolver
        self._executor = executor
        self._projection = projection
        self._settler = settler
        self._usage = usage
        self._backoff_ms = backoff_ms
        self._threads = threads
        self._telemetry = telemetry
        self._options = options or EngineOptions()
        self._jitter = jitter
        self._finishes: Batcher[Produced, Ending] = Batcher(
            "finish", projection.commit_many, executor=threads
        )

    @property
    def finishing(self) -> int:
        """Outputs that wait for their commit."""
        return len(self._finishes)

    async def run(
        self,
        work: Work,
        *,
        executed: Callable[[], None] = lambda: None,
        moved: Callable[[Work], None] = lambda _work: None,
    ) -> Ending:
        """Take ``work`` to its end in this worker and say how it ended; raises nothing of the job's.

        ``executed`` is called when the handler has returned: its slot is free while the result commits.
        ``moved`` is called when the job goes on under the lease of its next attempt.
        """
        began = time.monotonic()
        while True:
            result = await self._attempt(work, executed)
            if isinstance(result, Ending):
                complete(self._telemetry, work, result, began)
                return result
            work = result
            moved(work)
            work.switch.moving = False

    async def _attempt(self, work: Work, executed: Callable[[], None]) -> Work | Ending:
        """One attempt; returns the next one's work, or how it ended."""
        try:
            resolved = await self._resolve(work)
            point(Point.WORKER_BEFORE_EXECUTE)
            produced = await self._executor.execute(resolved)
            point(Point.WORKER_AFTER_EXECUTE)
            executed()
            return await self._project(produced)
        except Aborted as stop:
            if not work.was_stopped(stop):
                # Obeyed, it would hand the job back for ever, or leave it to its lease, without using an attempt.
                return await self._failed(work, HandlerError(f"the handler raised Aborted ({stop.reason})"))
            if stop.reason is Abort.TIMEOUT:
                return await self._failed(work, JobTimeout())
            return await self._stopped(work, stop.reason)
        except Exception as error:  # noqa: BLE001 - the one place where a job's error becomes a decision
            return await self._failed(work, error)

    # -------------------------------------------------------------- stages on threads

    async def _resolve(self, work: Work) -> Resolved:
        work.switch.check()
        if work.job.cancel_requested_at is not None:
            raise Aborted(Abort.CANCEL, lease=work.lease)
        if work.lease.epoch > 1:
            await self._refuse_unrepeatable(work)
        if self._resolver.is_quick(work):
            return self._resolver.resolve(work)
        return await self._threaded(lambda: self._resolver.resolve(work))

    async def _refuse_unrepeatable(self, work: Work) -> None:
        """After a crash, or a hand-back, in the middle of a call that must not be repeated: unknown for good."""
        if work.definition.execution.on_unknown_outcome == "retry":
            return
        ids = [work.job.id]
        if await self._threaded(lambda: self._uow.read(lambda conn: self._usage.open_calls(conn, ids))):
            raise ProviderOutcomeUnknown("the worker before was stopped during a call that must not be repeated")

    async def _project(self, produced: Produced) -> Ending:
        switch = produced.work.switch
        switch.moving = True
        try:
            return await self._committed(produced)
        except BaseException:
            # The attempt has failed at its last stage, and the lease is held on to.
            switch.moving = False
            raise

    async def _committed(self, produced: Produced) -> Ending:
        if produced.work.definition.projector is None:
            return await self._persist(lambda: self._finishes.submit(produced))
        return await self._persist(lambda: self._threaded(lambda: self._projection.commit(produced)))

    # -------------------------------------------------------------- attempts that did not succeed

    async def _stopped(self, work: Work, reason: Abort) -> Ending:
        if reason is Abort.CANCEL:
            return await self._write(work, lambda: self._settler.cancel(work))
        if reason is Abort.SHUTDOWN:
            return await self._write(work, lambda: self._settler.release(work))
        self._telemetry.emit("job.fenced_attempt", job_id=str(work.job.id), epoch=work.lease.epoch)
        return Ending.FENCED

    async def _failed(self, work: Work, error: Exception) -> Work | Ending:
        if work.switch.reason is Abort.FENCED:
            return await self._stopped(work, Abort.FENCED)
        decision = self._decide(work, error)
        self._telemetry.emit(
            "attempt.failed",
            job_id=str(work.job.id),
            job_type=work.job.job_type,
            code=decision.failure.code,
            error=type(error).__name__,
            attempt=work.claim.attempt_no,
        )
        if isinstance(decision, RetryInPlace):
            return await self._again(work, decision)
        if isinstance(decision, Park):
            return await self._write(work, lambda: self._settler.park(work, decision))
        return await self._write(work, lambda: self._settler.fail(work, decision))

    def _decide(self, work: Work, error: Exception) -> Decision:
        try:
            return decide(error, self._situation(work), jitter=self._jitter)
        except Exception:  # noqa: BLE001 - a mistake of ours must not leave the job without an end
            _log.exception("no decision could be made; the job fails")
            return Fail(describe(error))

    def _situation(self, work: Work) -> Situation:
        return Situation(
            definition=work.definition,
            attempt_no=work.claim.attempt_no,
            max_attempts=work.job.max_attempts,
            epoch=work.lease.epoch,
            earlier_codes=work.history.error_codes,
            backoff_ms=self._backoff_ms(work),
            park_from_ms=self._options.park_from_ms,
            max_retry_after_ms=self._options.max_retry_after_ms,
            call_in_flight=work.switch.calls_in_flight > 0,
            keep_error_text=self._options.keep_error_text,
        )

    async def _again(self, work: Work, decision: RetryInPlace) -> Work | Ending:
        """Wait in place, then claim the next attempt; a stop during the wait is obeyed at once."""
        reset_timeout(work)
        await asyncio.wait({work.switch.waiter()}, timeout=decision.delay_ms / 1000)
        if work.switch.reason is not None:
            return await self._stopped(work, work.switch.reason)
        answer = await self._write(work, lambda: self._settler.retry_in_place(work, decision))
        if isinstance(answer, Claim):
            return work.again(answer, _longer(work.history, decision.failure))
        return answer

    # -------------------------------------------------------------- writing through outages

    async def _write(self, work: Work, write: Callable[[], T]) -> T:
        work.switch.moving = True
        point(Point.WORKER_BEFORE_SETTLE)
        written = await self._persist(lambda: self._threaded(write))
        point(Point.WORKER_AFTER_SETTLE)
        return written

    async def _persist(self, write: Callable[[], asyncio.Future[T]]) -> T:
        return await persist(write, self._telemetry)

    def _threaded(self, act: Callable[[], T]) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self._threads, act)


def reset_timeout(work: Work) -> None:
    """The deadline of the attempt before is over; other stops stand."""
    if work.switch.reason is Abort.TIMEOUT:
        work.switch.reason = None
    work.switch.calls_in_flight = 0


def _longer(history: History, failure: Failure) -> History:
    codes = (*history.error_codes, failure.code) if failure.code else history.error_codes
    return History(codes, tuple(failure.errors))
