"""The kit's own tables: what happened outside the engine's view. They come and go with a run.

``crashkit_effect`` has no key that could hide a second effect; ``crashkit_call`` is written by a connection
of its own, so that a provider call counts even when its job's transaction is rolled back.
"""

from __future__ import annotations

from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.orm import Session

from outbox.base.clock import DatabaseClock, stamp
from outbox.base.db import UnitOfWork
from outbox.base.types import BinaryUuid, UtcDateTime, ascii_text, exact_text

_META = sa.MetaData()

EFFECT = sa.Table(
    "crashkit_effect",
    _META,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("job_id", BinaryUuid(), nullable=False),
    sa.Column("queue_name", ascii_text(32), nullable=False),
    sa.Column("epoch", sa.Integer, nullable=False),
)

CALL = sa.Table(
    "crashkit_call",
    _META,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("job_id", BinaryUuid(), nullable=False),
    sa.Column("queue_name", ascii_text(32), nullable=False),
    sa.Column("operation_id", ascii_text(128), nullable=False),
    sa.Column("worker", exact_text(128), nullable=False),
    sa.Column("began_at", UtcDateTime(), nullable=False),
)

NAMES = tuple(table.name for table in (EFFECT, CALL))

_BEGIN = CALL.insert().values(
    job_id=sa.bindparam("job"),
    queue_name=sa.bindparam("queue"),
    operation_id=sa.bindparam("operation"),
    worker=sa.bindparam("by"),
    began_at=stamp("now_us"),
)


def create(engine: sa.Engine) -> None:
    """Make the tables that are not there."""
    _META.create_all(engine)


def drop(engine: sa.Engine) -> None:
    """Take them away."""
    _META.drop_all(engine)


def empty(conn: sa.Connection) -> None:
    """Delete all rows."""
    for table in (CALL, EFFECT):
        conn.execute(sa.delete(table))


def add_effect(session: Session, job_id: UUID, queue_name: str, epoch: int) -> None:
    """Write one business row, in the projector's transaction."""
    session.execute(EFFECT.insert().values(job_id=job_id, queue_name=queue_name, epoch=epoch))


class CallBook:
    """Counts provider calls, each in a transaction of its own."""

    def __init__(self, engine: sa.Engine) -> None:
        self._uow = UnitOfWork(engine)
        self._clock = DatabaseClock()

    def begin(self, job_id: UUID, queue_name: str, operation_id: str, worker: str) -> None:
        """A call has reached the provider."""
        call = {"job": job_id, "queue": queue_name, "operation": operation_id, "by": worker}
        self._uow.run(lambda conn: conn.execute(_BEGIN, call | {"now_us": self._clock.us()}).close())

    def close(self) -> None:
        """Close the connections."""
        self._uow.engine.dispose()
