"""The life of a job, as data: every legal move, the method that makes it, and the legacy words for it.

    queued ──claim──▶ running ──mark_succeeded──▶ succeeded
      │                │ ▲  │ ──mark_failed─────▶ failed
      │                └─┘  │ ──mark_cancelled──▶ cancelled
      │    claim after an   │                        ▲
      │    ended lease,     park, release,           │
      │    a park or a      take_over: still running │
      │    hand-back                                 │
      └───────────request_cancel─────────────────────┘

Nothing leaves a final state, and nothing goes back to queued (design 6, ADR-003 1.3).
"""

from __future__ import annotations

from registry.job import LifecycleStatus, Outcome, WaitKind

#: from -> to -> the repository methods that make the move. A pair that is not here cannot be written.
MOVES: dict[LifecycleStatus, dict[LifecycleStatus, tuple[str, ...]]] = {
    LifecycleStatus.QUEUED: {
        LifecycleStatus.RUNNING: ("claim", "claim_untouched", "claim_doomed"),
        LifecycleStatus.CANCELLED: ("request_cancel",),
    },
    LifecycleStatus.RUNNING: {
        LifecycleStatus.RUNNING: ("claim", "retry_in_place", "park", "release", "take_over", "redeliver"),
        LifecycleStatus.SUCCEEDED: ("mark_succeeded",),
        LifecycleStatus.FAILED: ("mark_failed", "end_abandoned"),
        LifecycleStatus.CANCELLED: ("mark_cancelled", "end_abandoned", "request_cancel"),
    },
    LifecycleStatus.SUCCEEDED: {},
    LifecycleStatus.FAILED: {},
    LifecycleStatus.CANCELLED: {},
}

#: Parks that end by their own time: the delivery that wakes the job is written when it is parked.
TIMED_WAITS = frozenset({WaitKind.RETRY, WaitKind.RATE, WaitKind.DELIVERY})

#: ADR-003's old ``status`` column, written as a shadow of every move (1.5, X19).
LEGACY: dict[LifecycleStatus, str] = {
    LifecycleStatus.QUEUED: "pending",
    LifecycleStatus.RUNNING: "processing",
    LifecycleStatus.SUCCEEDED: "completed",
    LifecycleStatus.FAILED: "failed",
    LifecycleStatus.CANCELLED: "cancelled",
}
#: What the shadow says of a running job that was asked to stop (X18).
LEGACY_CANCEL_REQUESTED = "cancel_requested"

#: The outcome each final state begins with; a failure may be made more exact.
OUTCOMES: dict[LifecycleStatus, Outcome] = {
    LifecycleStatus.SUCCEEDED: Outcome.OK,
    LifecycleStatus.FAILED: Outcome.ERROR,
    LifecycleStatus.CANCELLED: Outcome.CANCELLED,
}
