"""Protections that are left out on purpose, to see that their loss is noticed: the kit must be able to fail."""

from __future__ import annotations

from dataclasses import dataclass

from engine.crashkit.faults import Fault, flush_waiting, late_writer, redis_partitioned


@dataclass(frozen=True, slots=True)
class Control:
    """A protection to leave out, a fault that needs it, and the invariant that must be seen to break."""

    name: str
    fault: Fault
    breaks: str


CONTROLLED: tuple[Control, ...] = (
    Control("fence", Fault("late writer", late_writer, on_sqlite=False), "the_last_claim_wrote_the_result"),
    Control(
        "lease",
        Fault("Redis unreachable for one worker", redis_partitioned, wired=True),
        "calls_are_repeated_for_a_reason",
    ),
    Control("redelivery", Fault("Redis flushed, jobs wait", flush_waiting), "every_job_ends_right"),
)
