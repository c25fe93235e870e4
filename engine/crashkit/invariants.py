"""What must hold after every fault: pure functions from evidence to breaches, each a sentence about one job."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from engine.crashkit.app import PROJECTED
from engine.crashkit.evidence import Evidence, Harm, JobFacts
from engine.crashkit.options import Job

ENQUEUE = "ai.job.enqueue"
_TERMINAL = {
    "succeeded": "ai.job.completed",
    "failed": "ai.job.failed",
    "cancelled": "ai.job.cancelled",
}
_COUNTED = frozenset({"first", "retry", "crash"})


@dataclass(frozen=True, slots=True)
class Breach:
    """A promise that was not kept."""

    invariant: str
    detail: str


@dataclass(frozen=True, slots=True)
class Case:
    """What is judged: the jobs that were asked for, what was found, and what was done to whom."""

    wanted: Mapping[str, Job]
    evidence: Evidence
    harm: Harm = field(default_factory=Harm)


Rule = Callable[[Case], Iterator[str]]


def every_job_ends_right(case: Case) -> Iterator[str]:
    """Each job is in the state it has to end in; losing every worker it had is a right end too."""
    for job in case.evidence.jobs:
        want = case.wanted[job.key].ends
        if job.status != want and not _was_exhausted(job, case.harm):
            yield f"{job.key} is {job.status} ({job.error_code}) and not {want}"
        if job.held:
            yield f"{job.key} has a lease"


def one_job_for_each_key(case: Case) -> Iterator[str]:
    """Creating again with the same key finds the first job."""
    found = sorted(job.key for job in case.evidence.jobs)
    if found != sorted(case.wanted):
        missing, extra = set(case.wanted) - set(found), len(found) - len(set(found))
        yield f"{len(missing)} jobs missing ({sorted(missing)[:5]}), {extra} too many"


def created_whole_or_not_at_all(case: Case) -> Iterator[str]:
    """Job, snapshot and event come together."""
    for job in case.evidence.jobs:
        firsts = [e for e in job.events if e.event_type == ENQUEUE and e.delivery_no == 1]
        if job.snapshots != 1 or len(firsts) != 1:
            yield f"{job.key} has {job.snapshots} snapshots and {len(firsts)} first events"
    if case.evidence.orphans:
        yield f"{case.evidence.orphans} rows without their job"


def one_effect_for_each_success(case: Case) -> Iterator[str]:
    """Business rows, artifacts and outputs exist once for what succeeded, and for nothing else."""
    for job in case.evidence.jobs:
        due = 1 if job.status == "succeeded" else 0
        shown = due if job.job_type in PROJECTED else 0
        found = (len(job.effects), job.artifacts, job.outputs)
        if found != (shown, shown, due):
            yield f"{job.key} ({job.status}) has {found[0]} effects, {found[1]} artifacts, {found[2]} outputs"


def the_last_claim_wrote_the_result(case: Case) -> Iterator[str]:
    """A claim that was followed by another one has written nothing."""
    for job in case.evidence.jobs:
        if any(epoch != job.epoch for epoch in job.effects):
            yield f"{job.key} shows the result of epoch {job.effects}, its last claim is {job.epoch}"


def one_terminal_event(case: Case) -> Iterator[str]:
    """Each end is announced once, as what it is."""
    for job in case.evidence.jobs:
        found = sorted(e.event_type for e in job.events if e.event_type != ENQUEUE)
        if job.is_final and found != [_TERMINAL[job.status]]:
            yield f"{job.key} ({job.status}) has the terminal events {found}"


def the_outbox_is_settled(case: Case) -> Iterator[str]:
    """No event is held, waits, or died of an outage."""
    for job in case.evidence.jobs:
        for event in job.events:
            if event.status in ("pending", "processing", "dead"):
                yield f"{job.key}: {event.event_type} {event.delivery_no} is {event.status}"


def attempts_are_counted_once(case: Case) -> Iterator[str]:
    """Attempts are the claims that count, and never more than allowed."""
    for job in case.evidence.jobs:
        counted = sum(1 for claim in job.claims if claim.start_reason in _COUNTED)
        if job.attempt_count != counted or job.attempt_count > job.max_attempts:
            yield f"{job.key} counts {job.attempt_count} of {job.max_attempts}, {counted} claims count"


def no_call_without_its_intent(case: Case) -> Iterator[str]:
    """Every call the provider saw was on record before."""
    for job in case.evidence.jobs:
        unknown = {call.operation_id for call in job.calls} - set(job.intents)
        if unknown or len(job.calls) > len(job.intents):
            yield f"{job.key}: {len(job.calls)} calls, {len(job.intents)} intents"


def calls_are_repeated_for_a_reason(case: Case) -> Iterator[str]:
    """Only a call in the hands of a process that was killed or frozen is made again."""
    for job in case.evidence.jobs:
        unharmed = [call.worker for call in job.calls if not case.harm.hit(job, call.worker)]
        if len(unharmed) > 1:
            yield f"{job.key}: the provider was asked again although nothing had hit {unharmed}"


def redis_is_clean(case: Case) -> Iterator[str]:
    """No ticket outlives its job."""
    if case.evidence.leftovers:
        shown = ", ".join(case.evidence.leftovers[:5])
        yield f"{len(case.evidence.leftovers)} keys without an end, such as {shown}"


INVARIANTS: tuple[Rule, ...] = (
    every_job_ends_right,
    one_job_for_each_key,
    created_whole_or_not_at_all,
    one_effect_for_each_success,
    the_last_claim_wrote_the_result,
    one_terminal_event,
    the_outbox_is_settled,
    attempts_are_counted_once,
    no_call_without_its_intent,
    calls_are_repeated_for_a_reason,
    redis_is_clean,
)

#: Judged by the clock and not by the tables: see ``stage``.
RECOVERY = "recovered_within_the_promise"


def judge(case: Case) -> list[Breach]:
    """Every breach of every invariant."""
    return [Breach(rule.__name__, detail) for rule in INVARIANTS for detail in rule(case)]


def _was_exhausted(job: JobFacts, harm: Harm) -> bool:
    """Whether the job lost as many workers as it may have."""
    lost = job.status == "failed" and job.error_code == "LEASE_LOST"
    return (
        lost
        and job.attempt_count == job.max_attempts
        and all(claim.worker in harm.by_worker for claim in job.claims)
    )
