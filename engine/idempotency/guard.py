"""What follows for a request with a key, given what is known about the key. Pure: no clock, no database.

another fingerprint ............ Mismatch    before anything else (AH-2)
no record, or one that expired . Run
completed ...................... Replay
running, lease not ended ....... InProgress
running, lease missed .......... Run, taking over what the dead request left; or, where it had sent
                                 something to a provider and no job can tell, OutcomeUnknown (X59)
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from engine.idempotency.record import Answer, Record, RecordStatus


@dataclass(frozen=True, slots=True)
class Run:
    """This request may run, once it has the claim; ``over`` is the record it takes over or replaces."""

    over: Record | None = None


@dataclass(frozen=True, slots=True)
class Replay:
    """The first request was carried out; this is its answer."""

    answer: Answer


@dataclass(frozen=True, slots=True)
class InProgress:
    """The first request is being carried out; ``job_id`` is the job it has made, where it has."""

    job_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The key belongs to a request that said something else."""


@dataclass(frozen=True, slots=True)
class OutcomeUnknown:
    """The first request ended after something was sent, and nothing tells what came of it."""


Decision = Run | Replay | InProgress | Mismatch | OutcomeUnknown


def decide(record: Record | None, fingerprint: bytes) -> Decision:
    """What a request with this ``fingerprint`` gets."""
    if record is None or record.expired:
        return Run(record)
    if record.fingerprint != fingerprint:
        return Mismatch()
    if record.status is RecordStatus.COMPLETED and record.answer is not None:
        return Replay(record.answer)
    if record.live:
        return InProgress(record.job_id)
    if record.sent and record.job_id is None:
        return OutcomeUnknown()
    return Run(record)
