"""Commits that a handler makes itself in the middle of its attempt: each once in the life of its job.

    the lease is locked and checked -> the operation is looked up -> the change -> its receipt -> COMMIT

One transaction. Of a repetition, in this attempt or after a takeover, the first receipt is the answer; the same
operation with another payload is refused (PC-5).
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable
from concurrent.futures import Executor as Threads
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from uuid import UUID

import sqlalchemy as sa
from pydantic import BaseModel

from engine.errors import (
    CallerTransactionLostError,
    CommitConflict,
    CommitInvalid,
    CommitTransactionEnded,
    CommitVersionMoved,
    HandlerError,
)
from engine.lifecycle.lease import Fenced
from engine.lifecycle.receipts import CommitReceipt, ReceiptRepository, StoredReceipt
from engine.lifecycle.repository import AiJobLifecycleRepository
from engine.pipeline.outages import persist
from engine.pipeline.work import Abort, Aborted, Work
from outbox.base.canonical import canonical_bytes, parse, sha256
from outbox.base.db import UnitOfWork
from outbox.base.documents import model_bytes
from outbox.base.errors import NotCanonicalError
from outbox.base.ids import new_id
from outbox.base.telemetry import Telemetry
from projectors.guard import lent_session

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

#: What a change may return, in bytes of canonical JSON: an id or a few figures, not a document.
MAX_RESULT: Final = 16_384

_OPERATION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,63}")

#: Writes business rows with the session it is given; its result is kept with the receipt.
Change: TypeAlias = "Callable[[Session], Any]"


@dataclass(frozen=True, slots=True)
class _Wanted:
    """One call, judged: its receipt will have this id."""

    id: UUID
    operation: str
    change: Change
    payload_hash: bytes
    expected_version: int | None


class Commits:
    """The commits of one attempt. Waits on the event loop, writes on database threads."""

    def __init__(
        self,
        *,
        work: Work,
        uow: UnitOfWork,
        lifecycle: AiJobLifecycleRepository,
        receipts: ReceiptRepository,
        threads: Threads,
        telemetry: Telemetry,
    ) -> None:
        self._work = work
        self._uow = uow
        self._lifecycle = lifecycle
        self._receipts = receipts
        self._threads = threads
        self._telemetry = telemetry

    async def commit(
        self, operation: str, change: Change, *, payload: Any, expected_version: int | None = None
    ) -> CommitReceipt:
        """See :meth:`engine.pipeline.context.JobContext.commit`."""
        self._work.switch.check()
        wanted = _judged(operation, change, payload, expected_version)
        loop = asyncio.get_running_loop()
        answer = await persist(
            lambda: loop.run_in_executor(self._threads, self._commit, wanted), self._telemetry
        )
        if isinstance(answer, Fenced):
            # The switch is left alone: the attempt that is told may be one left behind, and the switch is the next's.
            reason = Abort.CANCEL if answer is Fenced.CANCELLED else Abort.FENCED
            raise Aborted(reason, lease=self._work.lease)
        return answer

    # -------------------------------------------------------------- on a database thread

    def _commit(self, wanted: _Wanted) -> CommitReceipt | Fenced:
        return self._uow.run(
            lambda conn: self._unit(conn, wanted), landed=lambda conn: self._landed(conn, wanted)
        )

    def _unit(self, conn: sa.Connection, wanted: _Wanted) -> CommitReceipt | Fenced:
        lease = self._work.lease
        if self._lifecycle.alive(conn, [lease], locking=True).get(lease) is not False:
            return self._lifecycle.fenced(conn, lease)
        found = self._receipts.find(conn, lease.job_id, wanted.operation)
        if found is not None:
            return _first(found, wanted)
        before = self._receipts.version(conn, lease.job_id)
        if wanted.expected_version not in (None, before):
            raise CommitVersionMoved(
                f"operation {wanted.operation!r} expected version {wanted.expected_version}; "
                f"the job is at {before}",
                operation=wanted.operation, version=before,
            )  # fmt: skip
        receipt = StoredReceipt(
            wanted.id, lease.job_id, wanted.operation, before + 1, wanted.payload_hash, lease.epoch,
            self._work.claim.attempt_no, _changed(conn, wanted),
        )  # fmt: skip
        self._receipts.insert(conn, receipt)
        return _first(receipt, wanted)

    def _landed(self, conn: sa.Connection, wanted: _Wanted) -> CommitReceipt | None:
        """After a COMMIT without an answer: the receipt, when it is stored (CI-9)."""
        found = self._receipts.find(conn, self._work.lease.job_id, wanted.operation)
        return _first(found, wanted) if found is not None and found.id == wanted.id else None


def _first(stored: StoredReceipt, wanted: _Wanted) -> CommitReceipt:
    """The one receipt of an operation, for whoever asks with the same payload."""
    if stored.payload_hash != wanted.payload_hash:
        raise CommitConflict(
            f"operation {wanted.operation!r} was committed with another payload; "
            "the first stands, another content needs another name",
            operation=wanted.operation,
        )
    return CommitReceipt(
        stored.operation, stored.version, stored.payload_hash, stored.epoch, stored.attempt_no,
        parse(stored.result), replayed=stored.id != wanted.id,
    )  # fmt: skip


def _changed(conn: sa.Connection, wanted: _Wanted) -> bytes:
    """Run the change in the transaction of ``conn``; what it returned, as canonical JSON."""

    def refuse(what: str) -> Exception:
        return CommitTransactionEnded(
            f"the change of operation {wanted.operation!r} {what}", operation=wanted.operation
        )

    try:
        with lent_session(conn, refuse=refuse) as session:
            result = wanted.change(session)
    except CallerTransactionLostError as error:
        # Creating a job was refused by the database. The transaction is ours, and may run again.
        if isinstance(error.__cause__, sa.exc.DBAPIError):
            raise error.__cause__ from None
        raise
    except BaseException as error:
        if isinstance(error, Aborted) or (isinstance(error, Exception) and not isinstance(error, StopIteration)):
            raise
        # The others would end the thread's loop or the task that waits for it.
        raise HandlerError(f"the change raised {type(error).__name__}") from None
    return _stored(result, wanted.operation)


def _stored(result: Any, operation: str) -> bytes:
    if inspect.iscoroutine(result):
        result.close()
        raise CommitInvalid(_not_plain(operation), operation=operation)
    content = _bytes(result, f"the change of operation {operation!r} must return JSON, None or an id")
    if len(content) > MAX_RESULT:
        raise CommitInvalid(
            f"the change of operation {operation!r} returned {len(content)} bytes of JSON, the limit is "
            f"{MAX_RESULT}; return an id and store the rest in a row",
            operation=operation,
        )
    return content


# ------------------------------------------------------------------ judged before anything is written


def _judged(operation: Any, change: Any, payload: Any, expected_version: Any) -> _Wanted:
    if not isinstance(operation, str) or not _OPERATION.fullmatch(operation):
        raise CommitInvalid(
            "an operation is named by 1 to 64 letters, digits and . _ : / -, the first of them a letter or a digit"
        )
    if not callable(change) or inspect.iscoroutinefunction(change):
        raise CommitInvalid(_not_plain(operation), operation=operation)
    if expected_version is not None and (type(expected_version) is not int or expected_version < 0):
        raise CommitInvalid(
            f"expected_version of operation {operation!r} must be 0 or more: "
            "the commits the job has made before, as the last receipt's version says",
            operation=operation,
        )
    content = _bytes(payload, f"the payload of operation {operation!r} cannot be hashed")
    return _Wanted(new_id(), operation, change, sha256(content), expected_version)


def _bytes(value: Any, problem: str) -> bytes:
    try:
        return model_bytes(value) if isinstance(value, BaseModel) else canonical_bytes(value)
    except NotCanonicalError as error:
        raise CommitInvalid(f"{problem}: {error}") from None


def _not_plain(operation: str) -> str:
    return f"the change of operation {operation!r} must be a plain function; it runs on a database thread"
