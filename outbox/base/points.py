"""Named points of the path, where a drill kills or freezes the process; in production they do nothing.

Each stands at an edge: before or after something became durable, so that between two of them a crash
leaves one and the same state behind. ``engine/crashkit`` arms them in processes of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum


class Point(StrEnum):
    """Every named point; the prefix says which process passes it."""

    #: In the create transaction, before its first statement.
    CREATE_BEFORE_INSERT = "create.before_insert"
    #: Job, snapshot and event are inserted and not committed.
    CREATE_BEFORE_COMMIT = "create.before_commit"
    #: They are committed; no hint was sent and no caller was answered.
    CREATE_AFTER_COMMIT = "create.after_commit"

    #: The dispatcher holds events; nothing is on Redis.
    DISPATCHER_AFTER_CLAIM = "dispatcher.after_claim"
    #: Their tickets are on Redis; the events are not marked.
    DISPATCHER_AFTER_PUT = "dispatcher.after_put"
    #: The events are marked as published.
    DISPATCHER_AFTER_MARK = "dispatcher.after_mark"

    #: The worker has taken tickets off the queue; SQL knows nothing of it.
    WORKER_AFTER_TICKET = "worker.after_ticket"
    #: The jobs are claimed in SQL; nothing of them runs.
    WORKER_AFTER_CLAIM = "worker.after_claim"
    #: Everything is resolved; the handler was not called.
    WORKER_BEFORE_EXECUTE = "worker.before_execute"
    #: The intent of a provider call is stored; not a byte has left.
    WORKER_BEFORE_CALL = "worker.before_call"
    #: The provider works on the call. Passed by the drill's provider, not by the engine.
    WORKER_DURING_CALL = "worker.during_call"
    #: The provider has answered; its usage is not settled.
    WORKER_AFTER_CALL = "worker.after_call"
    #: The output is validated; its transaction has not begun.
    WORKER_AFTER_EXECUTE = "worker.after_execute"
    #: In the final transaction, after the projector.
    WORKER_IN_PROJECTOR = "worker.in_projector"
    #: In the final transaction, before COMMIT.
    WORKER_BEFORE_COMMIT = "worker.before_commit"
    #: The job has ended; its ticket is still out.
    WORKER_AFTER_COMMIT = "worker.after_commit"
    #: A failed attempt is decided; nothing of it is written.
    WORKER_BEFORE_SETTLE = "worker.before_settle"
    #: It is written: the job is parked, failed, handed back, or begins its next attempt.
    WORKER_AFTER_SETTLE = "worker.after_settle"

    #: Upkeep has read what is overdue and written nothing.
    UPKEEP_AFTER_READ = "upkeep.after_read"
    #: An abandoned job is taken over and its delivery written; the round goes on.
    UPKEEP_AFTER_TAKE_OVER = "upkeep.after_take_over"
    #: A lost delivery was written again.
    UPKEEP_AFTER_REDELIVER = "upkeep.after_redeliver"

    #: The worker was told to stop and claims nothing more; jobs run on.
    SHUTDOWN_DRAINING = "shutdown.draining"
    #: The grace is over; running jobs are about to be handed back.
    SHUTDOWN_BEFORE_HAND_BACK = "shutdown.before_hand_back"
    #: They are handed back; the process is still there.
    SHUTDOWN_AFTER_HAND_BACK = "shutdown.after_hand_back"


Hook = Callable[[Point], None]

_hook: Hook | None = None


def point(at: Point) -> None:
    """Say that this process has come to ``at``. One comparison, unless a drill has armed this process."""
    if _hook is not None:
        _hook(at)


def arm(hook: Hook | None) -> None:
    """Call ``hook`` at every point of this process from now on; None disarms. Only drills do this."""
    global _hook
    _hook = hook
