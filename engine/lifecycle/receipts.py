"""Receipts of the commits that handlers make themselves: each operation of a job at most once (PC-5).

Written in the transaction of the change they stand for, under the lock of the job's row.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from engine.lifecycle.models import COMMIT_RECEIPT
from engine.lifecycle.views import PAGE_LIMIT
from outbox.base.bulk import RowInsert
from outbox.base.clock import DatabaseClock, stamp

_C = COMMIT_RECEIPT.c

_INSERT = RowInsert(
    COMMIT_RECEIPT,
    ["id", "job_id", "operation", "version", "payload_hash", "epoch", "attempt_no", "result"],
    expressions={"created_at": stamp("now_us")},
    bulky="result",
)
_of_job = _C.job_id == sa.bindparam("of_job", type_=_C.job_id.type)
_FIND = sa.select(
    _C.id, _C.job_id, _C.operation, _C.version, _C.payload_hash, _C.epoch, _C.attempt_no, _C.result
).where(_of_job, _C.operation == sa.bindparam("named"))
_VERSION = sa.select(sa.func.count()).select_from(COMMIT_RECEIPT).where(_of_job)
_LATEST = (
    sa.select(_C.operation, _C.version, _C.attempt_no, _C.created_at)
    .where(_of_job)
    .order_by(_C.version.desc())
    .limit(PAGE_LIMIT)
)


@dataclass(frozen=True, slots=True)
class CommitReceipt:
    """What is known of a commit that a handler made: the same for whoever repeats it."""

    operation: str
    #: How many commits the job had made with this one.
    version: int
    #: SHA-256 over the payload's canonical bytes (RFC 8785).
    payload_hash: bytes
    #: The claim and the attempt that committed it.
    epoch: int
    attempt_no: int
    #: What the change returned, as JSON reads back: tuples are lists.
    result: Any
    #: An earlier call had committed it, of this attempt or of one before; the change was not run again.
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class StoredReceipt:
    """A receipt as its row has it."""

    id: UUID
    job_id: UUID
    operation: str
    version: int
    payload_hash: bytes
    epoch: int
    attempt_no: int
    #: Canonical JSON.
    result: bytes


@dataclass(frozen=True, slots=True)
class CommitView:
    """A commit as people who look a job over see it: nothing of its content, neither hash nor result."""

    operation: str
    version: int
    attempt_no: int
    committed_at: datetime


def commits(conn: sa.Connection, job_id: UUID) -> list[CommitView]:
    """What the job's handler has committed, in order; of more than ``PAGE_LIMIT`` the latest."""
    return [CommitView(*row) for row in reversed(conn.execute(_LATEST, {"of_job": job_id}).all())]


class ReceiptRepository:
    """The only writer of ``commit_receipt``. The caller holds the lock of the job's row."""

    def __init__(self, clock: DatabaseClock) -> None:
        self._clock = clock

    def find(self, conn: sa.Connection, job_id: UUID, operation: str) -> StoredReceipt | None:
        """The receipt of this operation, when the job has committed it."""
        row = conn.execute(_FIND, {"of_job": job_id, "named": operation}).first()
        if row is None:
            return None
        values = row._asdict() | {"payload_hash": bytes(row.payload_hash), "result": bytes(row.result)}
        return StoredReceipt(**values)

    def version(self, conn: sa.Connection, job_id: UUID) -> int:
        """How many commits the job has made."""
        return int(conn.execute(_VERSION, {"of_job": job_id}).scalar_one())

    def insert(self, conn: sa.Connection, receipt: StoredReceipt) -> None:
        """Store the receipt in the transaction of its change."""
        row = {
            "id": receipt.id, "job_id": receipt.job_id, "operation": receipt.operation,
            "version": receipt.version, "payload_hash": receipt.payload_hash, "epoch": receipt.epoch,
            "attempt_no": receipt.attempt_no, "result": receipt.result,
        }  # fmt: skip
        _INSERT.write(conn, [row], now_us=self._clock.us())
