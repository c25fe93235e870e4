"""One row per provider call: the intent before bytes leave, the settlement after (promise 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from uuid import UUID

import sqlalchemy as sa

from engine.lifecycle.lease import Lease
from engine.lifecycle.repository import AiJobLifecycleRepository
from engine.usage.models import AI_USAGE_LOG
from outbox.base.bulk import RowInsert
from outbox.base.clock import DatabaseClock, stamp
from outbox.base.ids import new_id

_C = AI_USAGE_LOG.c

INTENT = "intent"
SETTLED = "settled"
FAILED = "failed"

_INSERT = RowInsert(
    AI_USAGE_LOG,
    ["id", "job_id", "epoch", "call_no", "attempt_no", "operation_id", "status", "credential_mode",
     "provider", "model"],
    expressions={"created_at": stamp("now_us")},
)  # fmt: skip

_SETTLE = (
    sa.update(AI_USAGE_LOG)
    .where(
        _C.job_id == sa.bindparam("of_job", type_=_C.job_id.type),
        _C.epoch == sa.bindparam("of_epoch"),
        _C.call_no == sa.bindparam("of_call"),
        _C.status == INTENT,
    )
    .values(
        status=sa.bindparam("how"),
        model=sa.func.coalesce(sa.bindparam("used_model"), _C.model),
        input_tokens=sa.bindparam("tokens_in"),
        output_tokens=sa.bindparam("tokens_out"),
        cost_usd=sa.bindparam("cost", type_=_C.cost_usd.type),
        latency_ms=sa.bindparam("took_ms"),
        finish_reason=sa.bindparam("reason"),
        provider_request_id=sa.bindparam("request_id"),
        error_code=sa.bindparam("code"),
        settled_at=stamp("now_us"),
    )
)

_OPEN = (
    sa.select(_C.job_id)
    .where(
        _C.job_id.in_(sa.bindparam("jobs", expanding=True, type_=_C.job_id.type)), _C.status == INTENT
    )
    .distinct()
)

_STORED = sa.select(_C.job_id, _C.epoch, _C.call_no).where(
    _C.job_id.in_(sa.bindparam("jobs", expanding=True, type_=_C.job_id.type))
)

_CALLS = sa.select(AI_USAGE_LOG).where(_C.job_id == sa.bindparam("of_job", type_=_C.job_id.type)).order_by(
    _C.epoch, _C.call_no
)


@dataclass(frozen=True, slots=True)
class Intent:
    """A call that is about to be made."""

    lease: Lease
    call_no: int
    attempt_no: int
    operation_id: str
    credential_mode: str
    provider: str
    model: str | None
    #: It was tried before and may have been stored: the answer to that COMMIT was lost.
    again: bool = False

    @property
    def key(self) -> tuple[UUID, int, int]:
        """What names the call."""
        return (self.lease.job_id, self.lease.epoch, self.call_no)


@dataclass(frozen=True, slots=True)
class Settlement:
    """What is known of a call afterwards. ``error_code`` None means that it was answered."""

    lease: Lease
    call_no: int
    latency_ms: int
    error_code: str | None = None
    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: Decimal | None = None
    finish_reason: str | None = None
    provider_request_id: str | None = None


class UsageRepository:
    """The only writer of ``ai_usage_log``; every write is fenced by the job's lease."""

    def __init__(self, clock: DatabaseClock, lifecycle: AiJobLifecycleRepository) -> None:
        self._clock = clock
        self._lifecycle = lifecycle

    def record(self, conn: sa.Connection, intents: Sequence[Intent]) -> list[bool]:
        """Store intents, in their order; False where the lease is lost and the call must not be made."""
        held = self._lifecycle.alive(conn, [i.lease for i in intents], locking=True)
        stored = self._stored(conn, [i for i in intents if i.again])
        rows = [
            {
                "id": new_id(), "job_id": i.lease.job_id, "epoch": i.lease.epoch, "call_no": i.call_no,
                "attempt_no": i.attempt_no, "operation_id": i.operation_id, "status": INTENT,
                "credential_mode": i.credential_mode, "provider": i.provider, "model": i.model,
            }
            for i in intents if i.lease in held and i.key not in stored
        ]  # fmt: skip
        if rows:
            _INSERT.write(conn, rows, now_us=self._clock.us())
        return [i.lease in held for i in intents]

    def recorded(self, conn: sa.Connection, intents: Sequence[Intent]) -> list[bool] | None:
        """After a COMMIT without an answer: what :meth:`record` answered, when it was stored (CI-9)."""
        stored = self._stored(conn, intents)
        return [i.key in stored for i in intents] if stored else None

    @staticmethod
    def _stored(conn: sa.Connection, intents: Sequence[Intent]) -> set[tuple[UUID, int, int]]:
        if not intents:
            return set()
        rows = conn.execute(_STORED, {"jobs": sorted({i.lease.job_id for i in intents})})
        return {(row.job_id, row.epoch, row.call_no) for row in rows} & {i.key for i in intents}

    def settle(self, conn: sa.Connection, settlements: Sequence[Settlement]) -> list[bool]:
        """Write what became of calls, in their order; False where the lease is lost: it stays unknown."""
        held = self._lifecycle.alive(conn, [s.lease for s in settlements], locking=True)
        for s in settlements:
            if s.lease in held:
                conn.execute(_SETTLE, self._settled(s))
        return [s.lease in held for s in settlements]

    def _settled(self, s: Settlement) -> dict[str, object]:
        return {
            "of_job": s.lease.job_id, "of_epoch": s.lease.epoch, "of_call": s.call_no,
            "how": FAILED if s.error_code else SETTLED, "used_model": s.model,
            "tokens_in": s.input_tokens, "tokens_out": s.output_tokens, "cost": s.cost_usd,
            "took_ms": s.latency_ms, "reason": s.finish_reason, "request_id": s.provider_request_id,
            "code": s.error_code, "now_us": self._clock.us(),
        }  # fmt: skip

    def open_calls(self, conn: sa.Connection, job_ids: Sequence[UUID]) -> set[UUID]:
        """Those of ``job_ids`` with a call that was begun and never settled: its outcome is unknown."""
        return set(conn.execute(_OPEN, {"jobs": list(job_ids)}).scalars()) if job_ids else set()

    def calls(self, conn: sa.Connection, job_id: UUID) -> list[sa.RowMapping]:
        """Every recorded call of a job, in order."""
        return list(conn.execute(_CALLS, {"of_job": job_id}).mappings())
