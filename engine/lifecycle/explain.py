"""Why is this job where it is? One pure function; console, command line and API print what it says.

    explain(circumstances) -> code, sentence, what happens next by itself and when, what a person may do

The rules are asked from the firmest to the vaguest: ended, held, parked, delayed, then along the way of its
delivery: outbox, Redis, queue, workers. Every job has an answer. No rule raises an alarm where the engine
heals itself (design 11): ``needs_person`` is set only where waiting does not help.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from engine.lifecycle.circumstances import Broker, Circumstances, Explanation, Why, span
from outbox.states import EventStatus
from outbox.transports.base import WorkerPresence
from registry.job import LifecycleStatus, Outcome, WaitKind

#: Longer than this without a sign of life there is no dispatcher, in ms.
SILENT_MS = 30_000

Rule = Callable[[Circumstances], Explanation | None]


def explain(circumstances: Circumstances) -> Explanation:
    """Why the job is where it is; total: some rule answers for every state."""
    for rule in _RULES:
        found = rule(circumstances)
        if found is not None:
            return _with_its_past(circumstances, found)
    return _with_its_past(circumstances, _queue_busy(circumstances))


def _with_its_past(c: Circumstances, found: Explanation) -> Explanation:
    """A job that counts as running while nobody works on it: why that is so comes first."""
    job = c.job
    on_its_way = job.lifecycle_status is LifecycleStatus.RUNNING and job.lock_until is None and job.wait_kind is None
    if not on_its_way or not c.claims:
        return found
    handed_back = c.claims[-1].ended_at is not None and c.claims[-1].error_code is None
    past = "its worker stopped and handed it back" if handed_back else "its last worker was lost"
    return replace(found, sentence=f"{past}; {found.sentence}")


# ------------------------------------------------------------------ ended


def _ended(c: Circumstances) -> Explanation | None:
    if not c.job.is_final:
        return None
    took = f" after {span(c.job.finished_at - c.job.created_at)}" if c.job.finished_at else ""
    if c.job.lifecycle_status is LifecycleStatus.SUCCEEDED:
        tries = f" in attempt {c.job.attempt_count}" if c.job.attempt_count > 1 else ""
        return Explanation(code=Why.SUCCEEDED, sentence=f"succeeded{took}{tries}")
    retry = f"aijobs jobs retry {c.job.id}"
    if c.job.lifecycle_status is LifecycleStatus.CANCELLED:
        return Explanation(code=Why.CANCELLED, sentence=f"cancelled{took}", command=retry)
    code = c.job.error_code or "unknown error"
    if c.job.outcome is Outcome.INDETERMINATE:
        sentence = (
            f"failed{took} with {code}, and whether its last call outside was carried out is unknown; "
            "check there before it is repeated"
        )
        return Explanation(code=Why.INDETERMINATE, sentence=sentence, command=retry, needs_person=True)
    why = Why.EXPIRED if c.job.outcome is Outcome.EXPIRED else Why.FAILED
    sentence = f"failed{took} with {code} (attempt {c.job.attempt_count} of {c.job.max_attempts}{_unused(c, code)})"
    return Explanation(code=why, sentence=sentence, command=retry)


def _unused(c: Circumstances, code: str) -> str:
    """Why attempts were left over, where people wonder."""
    if c.job.attempt_count >= c.job.max_attempts:
        return ""
    if code.startswith("INTERNAL_"):
        return "; a mistake in code is tried once more only"
    return "; this error is not retried"


# ------------------------------------------------------------------ held by a worker


def _held(c: Circumstances) -> Explanation | None:
    job = c.job
    if job.lock_until is None:
        return None
    if job.lock_until <= c.now:
        return _lease_expired(c, job.lock_until)
    left = job.lock_until - c.now
    attempt = f"attempt {job.attempt_count} of {job.max_attempts}"
    if job.cancel_requested_at is not None:
        sentence = f"cancel asked {span(c.now - job.cancel_requested_at)} ago; {job.locked_by} still works on it"
        step = "the worker stops at its next heartbeat; were it dead, upkeep would end the job"
        return Explanation(code=Why.CANCEL_PENDING, sentence=sentence, next_step=step, at=job.lock_until)
    # Two heartbeats are overdue when less than this is left.
    late = left < timedelta(milliseconds=c.lease_ms - 2 * c.heartbeat_ms)
    last = "if the worker is dead, the job is taken over after that" if late else "the worker renews it before"
    return Explanation(
        code=Why.LEASE_EXPIRING if late else Why.LEASE_LIVE,
        sentence=f"running on {job.locked_by}, {attempt}; its lease ends in {span(left)}",
        next_step=last,
        at=job.lock_until,
    )


def _lease_expired(c: Circumstances, ended: datetime) -> Explanation:
    job = c.job
    if job.cancel_requested_at is not None:
        step = "upkeep ends the job as cancelled, as was asked"
    elif job.attempt_count >= job.max_attempts:
        step = "no attempts are left, so upkeep ends the job as failed"
    else:
        step = f"upkeep delivers it again for attempt {job.attempt_count + 1} of {job.max_attempts}"
    return Explanation(
        code=Why.LEASE_EXPIRED,
        sentence=f"{job.locked_by} was lost: its lease ended {span(c.now - ended)} ago",
        next_step=step,
        at=ended + timedelta(milliseconds=c.upkeep_ms),
        # Upkeep that delivers again runs with every dispatcher; two rounds later there is none.
        command="aijobs dispatcher" if c.now - ended > timedelta(milliseconds=2 * c.upkeep_ms) else None,
    )


# ------------------------------------------------------------------ not its time yet


def _parked(c: Circumstances) -> Explanation | None:
    if c.job.wait_kind is WaitKind.APPROVAL:
        sentence = "waits for a person's decision; it holds no lease and no slot"
        return Explanation(code=Why.APPROVAL_OPEN, sentence=sentence, needs_person=True)
    if c.job.wait_kind is WaitKind.TOOL:
        return Explanation(code=Why.TOOL_OPEN, sentence="waits for the answer of a tool that works elsewhere")
    return None


def _not_due(c: Circumstances) -> Explanation | None:
    job = c.job
    if job.available_at <= c.now:
        return None
    wait = span(job.available_at - c.now)
    if job.wait_kind is WaitKind.RATE:
        sentence = f"the provider asked to wait; {wait} are left, and no attempt is used"
        return Explanation(code=Why.RATE_LIMITED, sentence=sentence, next_step="it goes on", at=job.available_at)
    if job.wait_kind is not None:
        failed = next((claim.error_code for claim in reversed(c.claims) if claim.error_code), None)
        sentence = f"attempt {job.attempt_count} of {job.max_attempts} failed{f' with {failed}' if failed else ''}"
        step = f"attempt {job.attempt_count + 1} starts in {wait}"
        return Explanation(code=Why.BACKOFF, sentence=sentence, next_step=step, at=job.available_at)
    sentence = f"its creator asked for a later start, in {wait}"
    return Explanation(code=Why.DELAYED, sentence=sentence, next_step="it is delivered", at=job.available_at)


def _paused(c: Circumstances) -> Explanation | None:
    if c.pause is None:
        return None
    return Explanation(
        code=Why.QUEUE_PAUSED,
        sentence=f"the queue {c.job.queue_name} was paused {span(c.now - c.pause.paused_at)} ago: {c.pause.reason}",
        next_step="the pause ends by itself" if c.pause.paused_until else None,
        at=c.pause.paused_until,
        command=f"aijobs queues resume {c.job.queue_name}",
        needs_person=c.pause.paused_until is None,
    )


# ------------------------------------------------------------------ on its way: the outbox


def _dead(c: Circumstances) -> Explanation | None:
    event = c.delivery
    if event is None or event.status not in (EventStatus.DEAD, EventStatus.DISCARDED):
        return None
    reason = event.last_error or "no reason is kept"
    return Explanation(
        code=Why.OUTBOX_DEAD,
        sentence=f"its delivery was given up after {event.attempt_count} tries ({reason})",
        command=f"aijobs outbox redeliver {event.id}",
        needs_person=True,
    )


def _pending(c: Circumstances) -> Explanation | None:
    event = c.delivery
    if event is None or event.status != EventStatus.PENDING:
        return None
    if event.delivery_no == 1 and c.ticket_alive:
        # Its creator has put the ticket (ADR 15): what it waits for is behind that.
        return None
    since = c.now - event.available_at
    if since < timedelta(0):
        sentence = f"Redis refused its ticket {event.attempt_count} times ({event.last_error or 'no reason is kept'})"
        return Explanation(
            code=Why.OUTBOX_BACKOFF, sentence=sentence, next_step="it is put again", at=event.available_at
        )
    if c.broker is Broker.DOWN:
        return _redis_down("its event waits in the outbox, where nothing is lost")
    if c.waiting is not None and c.waiting >= c.high_water_mark:
        sentence = f"{c.waiting} tickets wait in {c.job.queue_name} already; the rest is kept in the outbox"
        return Explanation(code=Why.QUEUE_BUSY, sentence=sentence, next_step="it is put when there is room")
    if _dispatches(c, since):
        step = "a dispatcher takes it within its next polls"
        return Explanation(
            code=Why.OUTBOX_WAITING, sentence=f"waits for the dispatcher since {span(since)}", next_step=step
        )
    if c.dispatchers:
        return _ignored(c, since)
    return Explanation(
        code=Why.NO_DISPATCHER,
        sentence=f"no dispatcher is running: none has taken it for {span(since)}",
        next_step="nothing is lost; it goes on when one runs",
        # With Redis inside the process, dispatcher and worker must share it.
        command="aijobs run" if c.broker is Broker.ELSEWHERE else "aijobs dispatcher",
        needs_person=True,
    )


def _dispatches(c: Circumstances, since: timedelta) -> bool:
    """Whether an event that is due for so long will be taken soon, as far as can be seen."""
    if since < timedelta(milliseconds=2 * c.poll_ms):
        return True
    if c.last_published is not None and c.now - c.last_published < timedelta(milliseconds=SILENT_MS):
        return True
    return bool(c.dispatchers) and since < timedelta(milliseconds=SILENT_MS)


def _ignored(c: Circumstances, since: timedelta) -> Explanation:
    names = ", ".join(one.name for one in c.dispatchers or ())
    return Explanation(
        code=Why.OUTBOX_WAITING,
        sentence=f"waits since {span(since)}, though dispatchers run: {names}",
        next_step="one takes it when it can; its log says what keeps it",
        command="aijobs doctor",
        needs_person=True,
    )


def _claimed(c: Circumstances) -> Explanation | None:
    event = c.delivery
    if event is None or event.status != EventStatus.PROCESSING or event.locked_at is None:
        return None
    released = event.locked_at + timedelta(milliseconds=c.claim_ttl_ms)
    if released > c.now:
        sentence = f"{event.locked_by or 'a dispatcher'} is putting its ticket on Redis"
        return Explanation(code=Why.OUTBOX_CLAIMED, sentence=sentence, next_step="it is published", at=released)
    return Explanation(
        code=Why.CLAIM_STALE,
        sentence=f"{event.locked_by or 'a dispatcher'} took its event {span(c.now - event.locked_at)} ago and was lost",
        next_step="upkeep gives the event back, and it is put again",
        at=released + timedelta(milliseconds=c.upkeep_ms),
    )


# ------------------------------------------------------------------ on its way: Redis and workers


def _unreachable(c: Circumstances) -> Explanation | None:
    if c.broker is Broker.DOWN:
        return _redis_down("its ticket was delivered; were it lost, upkeep would deliver it again")
    if c.broker is Broker.ELSEWHERE:
        sentence = "its ticket was delivered to the queue inside another process, which cannot be asked from here"
        return Explanation(code=Why.DELIVERED, sentence=sentence)
    return None


def _redis_down(meanwhile: str) -> Explanation:
    return Explanation(
        code=Why.REDIS_DOWN,
        sentence=f"Redis does not answer; {meanwhile}",
        next_step="it goes on when Redis is back",
        command="aijobs doctor",
        needs_person=True,
    )


def _lost(c: Circumstances) -> Explanation | None:
    if c.ticket_alive is not False:
        return None
    if c.dispatchers is not None and not c.dispatchers:
        return _lost_without_dispatcher()
    put = c.delivery.published_at if c.delivery else None
    due = timedelta(milliseconds=c.redelivery_ms + c.upkeep_ms)
    return Explanation(
        code=Why.TRANSPORT_LOST,
        sentence="it was delivered, but Redis has no ticket of it (any more)",
        next_step="upkeep notices and delivers it again",
        at=put + due if put and put + due > c.now else None,
        command=f"aijobs outbox redeliver {c.delivery.id}" if c.delivery else None,
    )


def _lost_without_dispatcher() -> Explanation:
    return Explanation(
        code=Why.NO_DISPATCHER,
        sentence="Redis has no ticket of it (any more), and no dispatcher is running that would put another",
        next_step="nothing is lost; upkeep delivers it again when a dispatcher runs",
        command="aijobs dispatcher",
        needs_person=True,
    )


def _no_workers(c: Circumstances) -> Explanation | None:
    if _listening(c):
        return None
    return Explanation(
        code=Why.NO_WORKERS,
        sentence=f"its ticket waits in {c.job.queue_name}, and no worker listens to that queue",
        next_step="it starts when a worker does",
        command=f"aijobs worker {c.job.queue_name}",
        needs_person=True,
    )


def _unknown_type(c: Circumstances) -> Explanation | None:
    if c.type_known:
        return None
    return Explanation(
        code=Why.UNKNOWN_TYPE,
        sentence=f"this release does not know the type {c.job.job_type}; its workers put the job off",
        next_step="it starts when a worker of a release that knows the type runs",
        command="aijobs types list",
        needs_person=True,
    )


def _queue_busy(c: Circumstances) -> Explanation:
    workers = _listening(c)
    busy = sum(worker.executing for worker in workers)
    tickets = "" if c.waiting is None else f", tickets waiting there: {c.waiting}"
    return Explanation(
        code=Why.QUEUE_BUSY,
        sentence=(
            f"waits for a free slot in {c.job.queue_name}{tickets}; "
            f"{len(workers)} workers listen and run {busy} jobs"
        ),
        next_step="it starts when its turn comes",
    )


def _listening(c: Circumstances) -> list[WorkerPresence]:
    return [worker for worker in c.workers if c.job.queue_name in worker.queues]


_RULES: tuple[Rule, ...] = (
    _ended, _held, _parked, _not_due, _dead, _paused, _pending, _claimed, _unreachable, _lost, _no_workers,
    _unknown_type,
)  # fmt: skip
