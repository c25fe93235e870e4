"""May this job be claimed, and what would the start be for? Decided here, enforced by the statement."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from engine.lifecycle.lease import Claim, Lease, Refusal
from engine.lifecycle.states import TIMED_WAITS
from registry.job import FINAL_STATUSES, StartReason, WaitKind


class Candidate(NamedTuple):
    """What the decision needs to know of a row; ``leased`` and ``due`` were judged by the database's clock."""

    id: UUID
    lifecycle_status: str
    wait_kind: str | None
    epoch: int
    attempt_count: int
    max_attempts: int
    start_reason: str
    delivery_no: int
    #: None: no lease; True: a live one; False: an ended one.
    leased: bool | None
    due: bool

    def claimed(self, reason: StartReason) -> Claim:
        """The claim that a start for ``reason`` makes of this row."""
        attempt = self.attempt_count + (1 if reason.counts_as_attempt else 0)
        return Claim(Lease(self.id, self.epoch + 1), attempt, reason)


#: As the row says it.
_FINAL = frozenset(status.value for status in FINAL_STATUSES)


def decide_claim(row: Candidate, *, delivery_no: int) -> StartReason | Refusal:
    """Why a claim of ``row`` for delivery ``delivery_no`` would start, or why it may not."""
    if row.lifecycle_status in _FINAL:
        return Refusal.FINAL
    if delivery_no < row.delivery_no:
        return Refusal.STALE
    if row.leased:
        return Refusal.LEASED
    if row.wait_kind is not None and WaitKind(row.wait_kind) not in TIMED_WAITS:
        return Refusal.WAITING
    if not row.due:
        return Refusal.NOT_DUE
    reason = StartReason.CRASH if row.leased is False else StartReason(row.start_reason)
    if reason.counts_as_attempt and row.attempt_count >= row.max_attempts:
        return Refusal.EXHAUSTED
    return reason
