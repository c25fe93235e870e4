"""First deliveries that are put right after their commit, before a dispatcher has seen their events (ADR 15).

Only where nothing waits in the queue, and only a few: at load, dispatchers put them in batches. Each is the very
delivery that its event asks for, so the dispatcher's put of it is a no-op, and all that goes wrong with this one
is that the job begins as late as without it.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.intake.commands import CreatedJob
from engine.intake.draft import Draft
from outbox.base.clock import wall_clock_ms
from outbox.scores import Score
from outbox.transports.base import MAX_IDLE_PUT, PutResult, Ticket, Transport

#: Tickets of a queue that are put at once, at most.
MOST = MAX_IDLE_PUT


def early_tickets(drafts: Sequence[Draft], made: Sequence[CreatedJob], score: Score) -> list[Ticket]:
    """The tickets of those jobs that were made just now and may begin at once; none where they are many."""
    if len(drafts) > MOST:
        return []
    return [_ticket(draft, new, score) for draft, new in zip(drafts, made, strict=True) if _is_due(new)]


def put_early(transport: Transport, tickets: Sequence[Ticket]) -> bool:
    """Put these ``tickets`` of one queue, if nothing waits there; False when that is left to the dispatchers."""
    if not 0 < len(tickets) <= MOST:
        return False
    answers = transport.put_many(tickets, if_idle=True)
    return all(isinstance(answer, PutResult) and answer is not PutResult.BUSY for answer in answers)


def _is_due(new: CreatedJob) -> bool:
    return new.created and new.job.available_at <= new.job.created_at


def _ticket(draft: Draft, new: CreatedJob, score: Score) -> Ticket:
    job, event = new.job, draft.event
    return Ticket(
        job_id=job.id,
        job_type=job.job_type,
        queue_name=job.queue_name,
        delivery_no=event.delivery_no,
        deliver_score=score.first(job.priority, max(job.created_at, job.available_at)),
        created_at_ms=wall_clock_ms(),
        traceparent=event.traceparent,
    )
