"""Every act on ``idempotency_record``: claim, renew, link, complete, let go, purge.

A claim is taken in a transaction of its own before the request runs, so that all servers of a deployment
see it (AH-5). No error of a constraint is waited for: insert unless it exists, then read who won.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from engine.errors import IdempotencyConflictError
from engine.idempotency import statements as sql
from engine.idempotency.errors import IdempotencyClaimLost
from engine.idempotency.guard import Decision, InProgress, Mismatch, Run, decide
from engine.idempotency.models import CALLER_CHARS, ROUTE_CHARS
from engine.idempotency.record import Answer, Claim, Record, RecordStatus
from engine.idempotency.request import KeyedRequest
from outbox.base.clock import DatabaseClock
from outbox.base.db import UnitOfWork
from outbox.base.errors import DatabaseContention
from outbox.base.ids import new_id

#: How often a lost race is looked at again before the key counts as busy (AH-6).
_LOOKS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class IdempotencyOptions:
    """Times in ms, sizes in bytes."""

    #: How long an answer is kept, counted from completion (X47).
    keep_ms: int = 86_400_000
    #: A request that has not renewed for this long is dead; renewals come four times as often (X55).
    lease_ms: int = 60_000
    #: Larger answers are not kept; their key then says so.
    answer_limit: int = 4 * 1024 * 1024

    @property
    def renew_ms(self) -> int:
        """How often a running request renews its lease."""
        return max(1, self.lease_ms // 4)


class IdempotencyStore:
    """The only writer of ``idempotency_record``. Safe to use from many threads and processes."""

    def __init__(
        self,
        uow: UnitOfWork,
        clock: DatabaseClock,
        options: IdempotencyOptions | None = None,
    ) -> None:
        self._uow = uow
        self._clock = clock
        self.options = options or IdempotencyOptions()

    # -------------------------------------------------------------- before the request runs

    def claim(self, request: KeyedRequest) -> Claim | Decision:
        """Take the right to run ``request``, or say why not; never returns :class:`Run`.

        Raises :class:`IdempotencyConflictError` where the key belongs to another request, and database errors.
        """
        found: Claim | Decision = self._uow.read(lambda conn: self._look(conn, request))
        for _ in range(_LOOKS):
            if not isinstance(found, Run):
                break
            found = self._take(request, new_id())
        if isinstance(found, Claim):
            return found
        return InProgress() if isinstance(found, Run) else _refuse_mismatch(found)

    def look(self, request: KeyedRequest) -> Decision:
        """What ``request`` would get now; claims nothing."""
        return _refuse_mismatch(self._uow.read(lambda conn: self._look(conn, request)))

    def _look(self, conn: sa.Connection, request: KeyedRequest) -> Decision:
        return decide(self._record(conn, request.digest), request.fingerprint)

    def _take(self, request: KeyedRequest, token: UUID) -> Claim | Decision:
        try:
            return self._uow.run(
                lambda conn: self._try(conn, request, token),
                landed=lambda conn: self._landed(conn, request, token),
            )
        except DatabaseContention:
            # The others that want this key are at it right now.
            return InProgress()

    def _try(self, conn: sa.Connection, request: KeyedRequest, token: UUID) -> Claim | Decision:
        """One try in one transaction. ``Run`` says that the race was lost to nobody: look again."""
        decision = self._look(conn, request)
        if not isinstance(decision, Run):
            return decision
        over = decision.over
        if over is not None and not over.expired:
            return self._take_over(conn, over, token) or Run()
        if over is not None:
            conn.execute(sql.DROP_EXPIRED, {"record_id": over.id, "now_us": self._clock.us()})
        self._insert(conn, request, token)
        winner = self._record(conn, request.digest, locking=True)
        if winner is not None and winner.claim_token == token:
            return Claim(winner.id, token)
        return decide(winner, request.fingerprint)

    def _take_over(self, conn: sa.Connection, over: Record, token: UUID) -> Claim | None:
        values = self._times() | {
            "record_id": over.id, "held_token": over.claim_token, "new_token": token,
            "now_us": self._clock.us(),
        }  # fmt: skip
        taken = conn.execute(sql.TAKE_OVER, values).rowcount == 1
        return Claim(over.id, token, job_id=over.job_id, taken_over=True) if taken else None

    def _insert(self, conn: sa.Connection, request: KeyedRequest, token: UUID) -> None:
        row = {
            "id": new_id(),
            "caller": sql.display(request.caller, CALLER_CHARS),
            "route": sql.display(request.route, ROUTE_CHARS),
            "idempotency_key": request.key,
            "digest": request.digest,
            "fingerprint": request.fingerprint,
            "status": RecordStatus.RUNNING.value,
            "claim_token": token,
        }
        sql.INSERT.execute(conn, [row], now_us=self._clock.us(), **self._times())

    def _landed(self, conn: sa.Connection, request: KeyedRequest, token: UUID) -> Claim | None:
        """After a COMMIT without an answer: the claim, where it was stored (CI-9)."""
        found = self._record(conn, request.digest)
        if found is None or found.claim_token != token:
            return None
        return Claim(found.id, token, job_id=found.job_id, taken_over=found.job_id is not None)

    # -------------------------------------------------------------- while it runs

    def renew(self, claim: Claim) -> bool:
        """Keep the claim; False when another request has taken it over."""
        return self._write(sql.RENEW, claim, **self._times())

    def link(self, conn: sa.Connection, claim: Claim, job_id: UUID) -> None:
        """Note the job that this request makes, in the caller's transaction: then a dead request's answer can be
        recovered from it (X56). Raises :class:`IdempotencyClaimLost`, so that the job is not made either.
        """
        values = self._held(claim) | {"linked_job": job_id}
        if conn.execute(sql.LINK, values).rowcount != 1:
            raise IdempotencyClaimLost()

    def mark_sent(self, claim: Claim) -> None:
        """Note, before bytes leave, that something is sent to a provider: from here on the request is not run
        again by itself (X59). Raises :class:`IdempotencyClaimLost`.
        """
        if not self._write(sql.MARK_SENT, claim, now_us=self._clock.us()):
            raise IdempotencyClaimLost()

    # -------------------------------------------------------------- when it has ended

    def complete(self, claim: Claim, answer: Answer) -> bool:
        """Keep a successful answer; False when the claim was lost, and then another one counts."""
        values = self._held(claim) | {
            "status_code": answer.status,
            "media_type": answer.content_type,
            "header_list": answer.headers_json(),
            "body_bytes": answer.body,
            "now_us": self._clock.us(),
            "expires_us": self._clock.us(self.options.keep_ms),
        }
        return self._uow.run(
            lambda conn: conn.execute(sql.COMPLETE, values).rowcount == 1,
            landed=lambda conn: self._completed(conn, claim) or None,
        )

    def let_go(self, claim: Claim, *, job_is_settled: bool = False) -> None:
        """The request ended without an answer to keep (AH-4).

        Where nothing was sent and no job was made, the key is free again. Otherwise the next request with it
        goes on from the job, or learns that the outcome is unknown. ``job_is_settled`` says that the job
        has ended, is known to have had no effect, and may be made anew.
        """
        forget = sql.FORGET_JOB if job_is_settled else sql.FORGET
        now = {"now_us": self._clock.us()}

        def unit(conn: sa.Connection) -> None:
            if not conn.execute(forget, self._held(claim)).rowcount:
                conn.execute(sql.HAND_OVER, self._held(claim) | now)

        self._uow.run(unit, repeatable=True)

    def purge_expired(self, *, limit: int = 500) -> int:
        """Delete up to ``limit`` records whose time is over; returns how many. For upkeep."""
        now = {"now_us": self._clock.us()}

        def unit(conn: sa.Connection) -> int:
            ids = sorted(conn.execute(sql.EXPIRED, now | {"limit": limit}).scalars())
            return conn.execute(sql.PURGE, now | {"ids": ids}).rowcount if ids else 0

        return self._uow.run(unit, repeatable=True)

    # -------------------------------------------------------------- inner

    def _write(self, statement: sa.Update, claim: Claim, **values: Any) -> bool:
        parameters = self._held(claim) | values
        return self._uow.run(
            lambda conn: conn.execute(statement, parameters).rowcount == 1, repeatable=True
        )

    def _completed(self, conn: sa.Connection, claim: Claim) -> bool:
        row = conn.execute(sql.STATUS, {"record_id": claim.record_id}).first()
        if row is None or row.claim_token != claim.token:
            return False
        return bool(row.status == RecordStatus.COMPLETED)

    def _times(self) -> dict[str, int]:
        lease = self.options.lease_ms
        return {
            "lease_us": self._clock.us(lease),
            # A key of a dead request that nobody asks for again goes with the others.
            "expires_us": self._clock.us(lease + self.options.keep_ms),
        }

    @staticmethod
    def _held(claim: Claim) -> dict[str, Any]:
        return {"record_id": claim.record_id, "held_token": claim.token}

    def _record(
        self, conn: sa.Connection, digest: bytes, *, locking: bool = False
    ) -> Record | None:
        query = sql.FIND_LOCKED if locking else sql.FIND
        row = conn.execute(query, {"row_digest": digest, "now_us": self._clock.us()}).first()
        return None if row is None else _record(row)


def _record(row: Any) -> Record:
    status = RecordStatus(row.status)
    answer = None
    if status is RecordStatus.COMPLETED:
        body = None if row.answer_body is None else bytes(row.answer_body)
        headers = Answer.read_headers(row.answer_headers)
        answer = Answer(row.answer_status, body, row.answer_type, headers)
    return Record(
        id=row.id,
        fingerprint=bytes(row.fingerprint),
        status=status,
        claim_token=row.claim_token,
        job_id=row.job_id,
        sent=row.sent_at is not None,
        answer=answer,
        live=bool(row.live),
        expired=bool(row.expired),
    )


def _refuse_mismatch(decision: Decision) -> Decision:
    if isinstance(decision, Mismatch):
        raise IdempotencyConflictError(
            "Idempotency-Key: already used for a request with another target or body",
            field="Idempotency-Key",
        )
    return decision
