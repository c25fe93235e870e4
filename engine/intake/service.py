"""AiJobService: the one door through which jobs come in.

    look up the definition -> check the request -> build the snapshot -> ONE transaction: job, snapshot,
    outbox event -> hint to the dispatcher after the outermost commit (design 7)
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import sqlalchemy as sa

from engine.errors import (
    JobAlreadyCancelledError,
    JobNotCancellableError,
    JobNotFoundError,
    JobNotRetryableError,
    SnapshotGoneError,
    WaitTimeoutError,
)
from engine.intake.checks import check_kind, to_job_id
from engine.intake.commands import CreatedJob, CreateJobInput, JobOverrides
from engine.intake.draft import Draft, draft
from engine.intake.early import early_tickets
from engine.intake.joining import CallerSession, joined
from engine.intake.wake import AfterCommit, WakeHint
from engine.intake.writer import DraftWriter
from engine.lifecycle import views
from engine.lifecycle.endings import EndedJob, Endings
from engine.lifecycle.outputs import OutputRepository
from engine.lifecycle.repository import AiJobLifecycleRepository
from engine.lifecycle.snapshots import SnapshotRepository
from engine.observe.tracing import current_traceparent
from engine.resources.prompts import PromptCatalog
from outbox.base.canonical import parse
from outbox.base.db import UnitOfWork
from outbox.base.points import Point, point
from outbox.base.telemetry import Telemetry
from outbox.errors import TransportError
from outbox.scores import Score
from outbox.transports.base import Transport
from registry.job import JobView, LifecycleStatus
from registry.registry import JobDefinitionRegistry

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncSession

_RETRYABLE = frozenset({LifecycleStatus.FAILED, LifecycleStatus.CANCELLED})


class AiJobService:
    """Creates, cancels, repeats and reads jobs. Safe to use from many threads."""

    def __init__(
        self,
        *,
        registry: JobDefinitionRegistry,
        prompts: PromptCatalog,
        uow: UnitOfWork,
        lifecycle: AiJobLifecycleRepository,
        snapshots: SnapshotRepository,
        outputs: OutputRepository,
        writer: DraftWriter,
        endings: Endings,
        transport: Transport,
        wake: WakeHint,
        telemetry: Telemetry,
        payload_limit: int,
        score: Score | None = None,
    ) -> None:
        """``score``: where first deliveries belong in their queues, for those put early; without, none is."""
        self._registry = registry
        self._prompts = prompts
        self._uow = uow
        self._lifecycle = lifecycle
        self._snapshots = snapshots
        self._outputs = outputs
        self._writer = writer
        self._endings = endings
        self._transport = transport
        self._wake = wake
        self._telemetry = telemetry
        self._payload_limit = payload_limit
        self._score = score

    # -------------------------------------------------------------- creating

    def create_job(self, input: CreateJobInput, *, session: CallerSession | None = None) -> CreatedJob:  # noqa: A002
        """Create one job with its snapshot and outbox event, or find the one that has its key.

        With ``session`` (a Session or Connection) everything joins the caller's transaction, which is
        never committed here; without, a transaction of our own is used. Raises a
        :class:`~engine.errors.CreateError` before anything is written, an
        :class:`~engine.errors.IdempotencyConflictError` for a key with other content, and
        :class:`~engine.errors.CallerTransactionLostError` when the caller's transaction failed.
        """
        return self.create_jobs([input], session=session)[0]

    def create_jobs(
        self, inputs: Sequence[CreateJobInput], *, session: CallerSession | None = None
    ) -> list[CreatedJob]:
        """Create many jobs in one transaction, answers in order; all of them or none.

        Raises as :meth:`create_job`.
        """
        drafts = [self._draft(wanted) for wanted in inputs]
        if not drafts:
            return []
        return self._counted(self._write(drafts, session))

    async def acreate_job(
        self,
        input: CreateJobInput,  # noqa: A002
        *,
        session: AsyncSession | None = None,
    ) -> CreatedJob:
        """:meth:`create_job` for async callers; ``session`` is their AsyncSession."""
        return (await self.acreate_jobs([input], session=session))[0]

    async def acreate_jobs(
        self, inputs: Sequence[CreateJobInput], *, session: AsyncSession | None = None
    ) -> list[CreatedJob]:
        """:meth:`create_jobs` for async callers: the same core on the session's own connection."""
        if session is None:
            return await asyncio.to_thread(self.create_jobs, inputs)
        return await session.run_sync(lambda inner: self.create_jobs(inputs, session=inner))

    def _draft(self, wanted: CreateJobInput, retry_of: UUID | None = None) -> Draft:
        check_kind(wanted)
        definition = self._registry.get(wanted.job_type)
        return draft(
            definition,
            wanted,
            payload_limit=self._payload_limit,
            traceparent=current_traceparent(),
            retry_of=retry_of,
        )

    def _write(self, drafts: Sequence[Draft], session: CallerSession | None) -> list[CreatedJob]:
        after = AfterCommit(self._wake, frozenset(each.job.queue_name for each in drafts))
        if session is not None:
            with joined(session, after_commit=after) as conn:
                answers = self._writer.write(conn, drafts)
            return self._announced(after, drafts, answers())
        answers = self._uow.run(
            lambda conn: self._writer.write(conn, drafts), landed=lambda conn: self._writer.landed(conn, drafts)
        )
        point(Point.CREATE_AFTER_COMMIT)
        made = self._announced(after, drafts, answers())
        after()
        return made

    def _announced(
        self, after: AfterCommit, drafts: Sequence[Draft], made: list[CreatedJob]
    ) -> list[CreatedJob]:
        if self._score is not None:
            after.tickets += early_tickets(drafts, made, self._score)
        return made

    # -------------------------------------------------------------- cancelling

    def request_cancel(
        self, job_id: UUID, *, user_id: str | None = None, session: CallerSession | None = None
    ) -> JobView:
        """Cancel a job that nobody works on at once; ask the worker of a running one to stop.

        With ``user_id`` another user's job does not exist. Returns the job as it is then: ``cancelled``, or
        ``running`` with ``cancel_requested_at`` (asking again changes nothing). Raises
        :class:`JobNotFoundError`, :class:`JobAlreadyCancelledError` or :class:`JobNotCancellableError`.
        """
        job_id = to_job_id(job_id)
        if session is not None:
            with joined(session) as conn:
                return self._cancel(conn, job_id, user_id)
        job = self._uow.run(
            lambda conn: self._cancel(conn, job_id, user_id), landed=lambda conn: _asked(conn, job_id)
        )
        self._hint_cancel(job)
        return job

    def _cancel(self, conn: sa.Connection, job_id: UUID, user_id: str | None) -> JobView:
        job = _owned(views.find(conn, job_id), user_id)
        self._check_cancellable(job)
        status = self._lifecycle.request_cancel(conn, job_id)
        if status is LifecycleStatus.CANCELLED:
            self._endings.announce(conn, [_ended(job)], LifecycleStatus.CANCELLED)
            self._telemetry.emit("job.cancelled", job_id=str(job_id), by="request")
        after = _owned(views.find(conn, job_id), user_id)
        if status is None:
            _refuse_cancel(after)
        return after

    def _check_cancellable(self, job: JobView) -> None:
        if job.is_final:
            _refuse_cancel(job)
        definition = self._registry.find(job.job_type)
        held = job.lifecycle_status is LifecycleStatus.RUNNING and job.lock_until is not None
        if held and definition is not None and not definition.execution.cancellable:
            raise JobNotCancellableError("jobs of this type cannot be cancelled while they run")

    def _hint_cancel(self, job: JobView) -> None:
        try:
            self._transport.cancel(job.queue_name, job.job_type, job.id)
        except TransportError:
            # Redis only speeds a cancel up; the column is the truth (X36).
            self._telemetry.emit("cancel.hint_failed")

    # -------------------------------------------------------------- repeating

    def retry_as_new(self, job_id: UUID, *, session: CallerSession | None = None) -> CreatedJob:
        """A new job with the input of a failed or cancelled one, pointing back at it; no key is copied.

        It runs with the prompt version of the first one, as long as this release has that; with the
        definition's own otherwise.

        Raises :class:`JobNotFoundError`, :class:`JobNotRetryableError` or :class:`SnapshotGoneError`.
        """
        job_id = to_job_id(job_id)
        if session is not None:
            # In the caller's transaction, which may have ended the job itself.
            with joined(session) as conn:
                again = self._again(conn, job_id)
        else:
            again = self._uow.read(lambda conn: self._again(conn, job_id))
        return self._counted(self._write([again], session))[0]

    def _counted(self, made: list[CreatedJob]) -> list[CreatedJob]:
        new = [found.job for found in made if found.created]
        ids = {"job_id": str(new[0].id), "job_type": new[0].job_type} if len(new) == 1 else {}
        self._telemetry.emit("job.created", len(new), **ids)
        return made

    def _again(self, conn: sa.Connection, job_id: UUID) -> Draft:
        job = _owned(views.find(conn, job_id), None)
        if job.lifecycle_status not in _RETRYABLE:
            raise JobNotRetryableError(f"the job is {job.lifecycle_status}; only failed or cancelled jobs are retried")
        snapshot = self._snapshots.load(conn, [job_id]).get(job_id)
        if snapshot is None or snapshot.content is None:
            raise SnapshotGoneError()
        return self._draft(self._same_request(job, parse(snapshot.content)), retry_of=job_id)

    def _same_request(self, job: JobView, payload: Any) -> CreateJobInput:
        version = job.prompt_version
        known = version is not None and self._prompts.knows(self._registry.get(job.job_type), version)
        return CreateJobInput(
            user_id=job.user_id,
            job_type=job.job_type,
            target_type=job.target_type,
            target_id=job.target_id,
            payload=payload,
            overrides=JobOverrides(
                priority=job.priority,
                credential_mode=job.credential_mode,
                credential_id=job.credential_id,
                prompt_version=version if known else None,
                output_schema_version=job.output_schema_version,
            ),
        )

    # -------------------------------------------------------------- reading

    def get(self, job_id: UUID, *, user_id: str | None = None) -> JobView:
        """The job, by its id (a UUID, or its text); raises :class:`JobNotFoundError`, also for another user's job."""
        job_id = to_job_id(job_id)
        return _owned(self._uow.read(lambda conn: views.find(conn, job_id)), user_id)

    def output(self, job_id: UUID) -> Any | None:
        """The stored output as JSON values; None when there is none (yet, or any more)."""
        job_id = to_job_id(job_id)
        content = self._uow.read(lambda conn: self._outputs.load(conn, job_id))
        return None if content is None else parse(content)

    def wait(self, job_id: UUID, timeout: float | timedelta) -> JobView:
        """Wait until the job has ended and return it; ``timeout`` in seconds.

        Raises :class:`WaitTimeoutError`; the job goes on.
        """
        seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
        deadline, pause = time.monotonic() + seconds, 0.01
        while not (job := self.get(job_id)).is_final:
            left = deadline - time.monotonic()
            # Whatever is not more than nothing, NaN too, is no time to wait.
            if not left > 0:
                raise WaitTimeoutError(f"the job is still {job.lifecycle_status} after {seconds:g} s")
            time.sleep(min(pause, left))
            pause = min(pause * 1.5, 0.25)
        return job


def _owned(job: JobView | None, user_id: str | None) -> JobView:
    if job is None or (user_id is not None and job.user_id != user_id):
        raise JobNotFoundError()
    return job


def _asked(conn: sa.Connection, job_id: UUID) -> JobView | None:
    """After a COMMIT without an answer: the job, when a cancel of it is on record."""
    job = views.find(conn, job_id)
    return job if job is not None and job.cancel_requested_at is not None else None


def _refuse_cancel(job: JobView) -> None:
    if job.lifecycle_status is LifecycleStatus.CANCELLED:
        raise JobAlreadyCancelledError()
    raise JobNotCancellableError(f"the job has already {job.lifecycle_status}")


def _ended(job: JobView) -> EndedJob:
    return EndedJob(job.id, job.job_type, job.queue_name, job.priority)
