"""The record of every start of a job: who claimed it, for what, and how that claim ended.

Rows are written in the same transaction as the job's own row, by ``AiJobLifecycleRepository`` alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from engine.lifecycle.lease import Claim, Lease, by_epoch
from engine.lifecycle.models import AI_JOB_CLAIM
from engine.lifecycle.values import Failure
from outbox.base.bulk import RowInsert
from outbox.base.clock import DatabaseClock, stamp
from outbox.base.keyed import Keyed, pair_of

_C = AI_JOB_CLAIM.c

_INSERT = RowInsert(
    AI_JOB_CLAIM,
    ["job_id", "epoch", "attempt_no", "start_reason", "worker"],
    expressions={"started_at": stamp("now_us")},
)

_END = Keyed(
    sa.update(AI_JOB_CLAIM)
    .where(pair_of(_C.job_id, _C.epoch))
    .values(ended_at=stamp("now_us"), error_code=sa.bindparam("code"), errors=sa.bindparam("told"))
)


class ClaimLog:
    """The only writer of ``ai_job_claim``."""

    def __init__(self, clock: DatabaseClock) -> None:
        self._clock = clock

    def begin(self, conn: sa.Connection, claims: Sequence[Claim], worker: str) -> None:
        """Record ``claims`` of ``worker``."""
        if not claims:
            return
        rows = [
            {
                "job_id": claim.lease.job_id,
                "epoch": claim.lease.epoch,
                "attempt_no": claim.attempt_no,
                "start_reason": claim.start_reason.value,
                "worker": worker,
            }
            for claim in claims
        ]
        _INSERT.write(conn, rows, now_us=self._clock.us())

    def end(
        self, conn: sa.Connection, leases: Sequence[Lease], failure: Failure | None, *, ago_ms: int = 0
    ) -> None:
        """Record that the claims behind ``leases`` are over since ``ago_ms``, all for the same reason."""
        if leases:
            _END.write(
                conn, by_epoch(leases), now_us=self._clock.us(-ago_ms), code=failure.code if failure else None,
                told=failure.errors_json if failure else None,
            )  # fmt: skip
