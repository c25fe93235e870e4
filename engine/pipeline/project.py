"""PROJECT: the final transaction. Artifacts, output, status and the terminal event commit together or not at all.

Jobs without a projector share a transaction; one with a projector has its own, because a projector's error
must cost nobody else. The cancel column is part of the WHERE: whoever commits first wins (X37).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from functools import partial

import sqlalchemy as sa

from engine.lifecycle.endings import EndedJob, Endings
from engine.lifecycle.lease import Fenced
from engine.lifecycle.outputs import OutputRepository
from engine.lifecycle.repository import AiJobLifecycleRepository
from engine.pipeline.work import Produced, Work
from outbox.base.clock import DatabaseClock
from outbox.base.db import UnitOfWork
from outbox.base.errors import DatabaseUnavailable
from outbox.base.points import Point, point
from outbox.base.telemetry import Telemetry
from projectors.projection import project_output
from projectors.registry import ProjectorRegistry
from registry.job import LifecycleStatus


class Ending(StrEnum):
    """How a claim ended, seen from the worker."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    #: Parked or handed back; the job goes on elsewhere.
    LEFT = "left"
    #: The claim was lost; nothing was written.
    FENCED = "fenced"


class Projection:
    """Commits produced outputs. Runs on database threads."""

    def __init__(
        self,
        *,
        uow: UnitOfWork,
        lifecycle: AiJobLifecycleRepository,
        outputs: OutputRepository,
        endings: Endings,
        projectors: ProjectorRegistry,
        clock: DatabaseClock,
        telemetry: Telemetry,
    ) -> None:
        self._uow = uow
        self._lifecycle = lifecycle
        self._outputs = outputs
        self._endings = endings
        self._projectors = projectors
        self._clock = clock
        self._telemetry = telemetry

    def commit_many(self, batch: Sequence[Produced]) -> list[Ending | Exception]:
        """Commit jobs without projectors in one transaction; on any trouble each in its own."""
        try:
            # Were the answer to COMMIT lost, the second run finds nothing left to end: a shortfall.
            self._uow.run(partial(self._succeed_all, batch=batch), repeatable=True)
        except DatabaseUnavailable:
            raise
        except Exception:  # noqa: BLE001 - whoever is to blame, the others are not run again because of it
            if len(batch) > 1:
                self._telemetry.emit("finish.batch_split", len(batch))
            return [self._guarded(produced) for produced in batch]
        return [Ending.SUCCEEDED] * len(batch)

    def _guarded(self, produced: Produced) -> Ending | Exception:
        try:
            return self.commit(produced)
        except Exception as error:  # noqa: BLE001 - it belongs to this job alone and is handed to it
            return error

    def commit(self, produced: Produced) -> Ending:
        """Commit one job. Raises a :class:`~projectors.errors.ProjectionError`: nothing was written."""
        # Were the answer to COMMIT lost, the second run finds that this claim has ended the job already.
        return self._uow.run(partial(self._finish, produced=produced), repeatable=True)

    # -------------------------------------------------------------- transactions

    def _succeed_all(self, conn: sa.Connection, *, batch: Sequence[Produced]) -> None:
        # A shortfall means that some job may not succeed: it undoes the whole of it.
        self._lifecycle.mark_all_succeeded(conn, [p.work.lease for p in batch])
        self._store(conn, batch)

    def _finish(self, conn: sa.Connection, *, produced: Produced) -> Ending:
        work = produced.work
        if self._lifecycle.mark_succeeded(conn, [work.lease]) == 1:
            self._project(conn, produced)
            self._store(conn, [produced])
            return Ending.SUCCEEDED
        return self._refused(conn, work)

    def _project(self, conn: sa.Connection, produced: Produced) -> None:
        key = produced.work.definition.projector
        if key is not None:
            projector = self._projectors.get(key)
            project_output(conn, projector, produced.work.job, produced.value, self._clock)
            point(Point.WORKER_IN_PROJECTOR)

    def _store(self, conn: sa.Connection, batch: Sequence[Produced]) -> None:
        self._outputs.insert(conn, [(p.work.job.id, p.output) for p in batch])
        self._endings.announce(conn, [ended(p.work) for p in batch], LifecycleStatus.SUCCEEDED)
        point(Point.WORKER_BEFORE_COMMIT)

    def _refused(self, conn: sa.Connection, work: Work) -> Ending:
        if self._lifecycle.ended_by(conn, work.lease, LifecycleStatus.SUCCEEDED):
            return Ending.SUCCEEDED
        return cancel_or_fenced(conn, work, self._lifecycle, self._endings)


def cancel_or_fenced(
    conn: sa.Connection, work: Work, lifecycle: AiJobLifecycleRepository, endings: Endings
) -> Ending:
    """What a refused ending means: a cancel came first, and is written now; or the claim is lost."""
    if lifecycle.fenced(conn, work.lease) is Fenced.CANCELLED and lifecycle.mark_cancelled(conn, work.lease):
        endings.announce(conn, [ended(work)], LifecycleStatus.CANCELLED)
        return Ending.CANCELLED
    return Ending.FENCED


def ended(work: Work, error_code: str | None = None) -> EndedJob:
    """What the terminal event says about this job."""
    job = work.job
    return EndedJob(job.id, job.job_type, job.queue_name, job.priority, error_code)


