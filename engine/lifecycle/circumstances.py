"""What the explanation of a job is made from, and what it says: plain values (see ``explain``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from engine.lifecycle.queues import QueuePause
from engine.lifecycle.views import ClaimView
from outbox.queries import EventView
from outbox.transports.base import WorkerPresence
from registry.job import JobView


class Why(StrEnum):
    """Stable names of the answers."""

    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    EXPIRED = "EXPIRED"
    INDETERMINATE = "INDETERMINATE"
    CANCEL_PENDING = "CANCEL_PENDING"
    LEASE_LIVE = "LEASE_LIVE"
    LEASE_EXPIRING = "LEASE_EXPIRING"
    LEASE_EXPIRED = "LEASE_EXPIRED"
    APPROVAL_OPEN = "APPROVAL_OPEN"
    TOOL_OPEN = "TOOL_OPEN"
    BACKOFF = "BACKOFF"
    RATE_LIMITED = "RATE_LIMITED"
    DELAYED = "DELAYED"
    QUEUE_PAUSED = "QUEUE_PAUSED"
    OUTBOX_DEAD = "OUTBOX_DEAD"
    OUTBOX_WAITING = "OUTBOX_WAITING"
    OUTBOX_BACKOFF = "OUTBOX_BACKOFF"
    OUTBOX_CLAIMED = "OUTBOX_CLAIMED"
    CLAIM_STALE = "CLAIM_STALE"
    NO_DISPATCHER = "NO_DISPATCHER"
    REDIS_DOWN = "REDIS_DOWN"
    TRANSPORT_LOST = "TRANSPORT_LOST"
    NO_WORKERS = "NO_WORKERS"
    UNKNOWN_TYPE = "UNKNOWN_TYPE"
    QUEUE_BUSY = "QUEUE_BUSY"
    DELIVERED = "DELIVERED"


class Broker(StrEnum):
    """What could be learnt from Redis."""

    #: It answered.
    UP = "up"
    #: It did not answer.
    DOWN = "down"
    #: It lives inside another process and cannot be asked from here.
    ELSEWHERE = "elsewhere"


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """Everything the answer depends on, read at one moment; ``now`` is the database's, times are UTC or ms."""

    now: datetime
    job: JobView
    #: The outbox event of the job's present delivery; None when it is no longer kept.
    delivery: EventView | None = None
    claims: Sequence[ClaimView] = ()
    pause: QueuePause | None = None
    broker: Broker = Broker.UP
    #: Workers heard of lately, of any queue; their ticket counts are of Redis.
    workers: Sequence[WorkerPresence] = ()
    #: Dispatchers heard of lately; None where they could not be asked for.
    dispatchers: Sequence[WorkerPresence] | None = None
    #: Whether Redis holds a ticket of the job; None where it could not be asked.
    ticket_alive: bool | None = None
    #: Tickets waiting in the job's queue.
    waiting: int | None = None
    #: Whether the asking process knows the job's type.
    type_known: bool = True
    #: When any dispatcher published something last, as far as is known.
    last_published: datetime | None = None
    lease_ms: int = 60_000
    heartbeat_ms: int = 15_000
    poll_ms: int = 1_000
    claim_ttl_ms: int = 60_000
    upkeep_ms: int = 30_000
    redelivery_ms: int = 60_000
    high_water_mark: int = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The answer. ``at`` is when ``next_step`` happens at the latest, UTC, where that is known."""

    code: Why
    sentence: str
    next_step: str | None = None
    at: datetime | None = None
    #: The command that helps, where one does.
    command: str | None = None
    needs_person: bool = False


def span(duration: timedelta) -> str:
    """A duration as people say it: ``0.4s``, ``12s``, ``4m 12s``, ``3h 5m``, ``2d 4h``; below zero is 0s."""
    seconds = max(0.0, duration.total_seconds())
    if seconds < 10:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    for unit, size, below, smaller in (("d", 86_400, 3_600, "h"), ("h", 3_600, 60, "m"), ("m", 60, 1, "s")):
        if whole >= size:
            rest = whole % size // below
            return f"{whole // size}{unit} {rest}{smaller}" if rest else f"{whole // size}{unit}"
    return f"{whole}s"
