"""Takes an event: its row, its dedupe digest and its job in one transaction, and then the answer (EW-1)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from uuid import UUID

import sqlalchemy as sa

from engine.errors import IdempotencyConflictError
from engine.http.edge import Edge, joining
from engine.intake.commands import CreateJobInput
from engine.lifecycle import views
from outbox.base.errors import DatabaseContention
from outbox.base.ids import new_id
from outbox.inbox import ForeignEvent, InboxRepository, Received

#: How often a lost race is looked at again; the winner's row is there after one.
_LOOKS = 5


@dataclass(frozen=True, slots=True)
class Taken:
    """The job of an event, and whether this delivery made it."""

    job_id: UUID
    created: bool


class _Repeated(Exception):
    """Another delivery of the event was faster; what this one wrote is rolled back."""


class EventTaker:
    """Takes events for an edge. Safe to use from many threads and processes."""

    def __init__(self, edge: Edge) -> None:
        self._edge = edge
        self._inbox = InboxRepository(edge.app.clock)

    def take(self, event: ForeignEvent, wanted: CreateJobInput, *, compare: bool) -> Taken:
        """Make the job of ``event``, or find it.

        With ``compare`` an event that is on record with another content is refused. Raises
        :class:`~engine.errors.CreateError`, :class:`IdempotencyConflictError` and database errors, and then nothing
        was stored.
        """
        for _ in range(_LOOKS):
            known = self._edge.app.uow.read(lambda conn: self._inbox.find(conn, event))
            if known is not None:
                if compare:
                    self._compare(known, wanted)
                return Taken(known.job_id, created=False)
            try:
                return Taken(self._make(event, wanted), created=True)
            except _Repeated:
                continue
        raise DatabaseContention("an event was always taken by others and never found")

    def _make(self, event: ForeignEvent, wanted: CreateJobInput) -> UUID:
        row_id = new_id()

        def unit(conn: sa.Connection) -> UUID:
            job = self._create(conn, row_id, wanted)
            if not self._inbox.receive(conn, event, row_id=row_id, job_id=job):
                raise _Repeated
            return job

        def landed(conn: sa.Connection) -> UUID | None:
            stored = self._inbox.stored(conn, row_id)
            return None if stored is None else stored.job_id

        return self._edge.app.uow.run(joining(unit), landed=landed)

    def _create(self, conn: sa.Connection, row_id: UUID, wanted: CreateJobInput) -> UUID:
        # Keyed by the row, which is new when the event is new again after its time.
        keyed = replace(wanted, idempotency_key=f"inbox:{row_id}")
        return self._edge.app.jobs.create_job(keyed, session=conn).job.id

    def _compare(self, known: Received, wanted: CreateJobInput) -> None:
        """Refuse an event that says something else than the one on record; writes nothing."""

        def unit(conn: sa.Connection) -> None:
            job = views.find(conn, known.job_id)
            if job is None:
                return
            if (job.user_id, job.job_type) != (wanted.user_id, wanted.job_type):
                raise IdempotencyConflictError(field="Idempotency-Key")
            self._create(conn, known.id, wanted)
            raise _Repeated

        try:
            self._edge.app.uow.run(joining(unit))
        except _Repeated:
            return
