"""What a queue is: how many jobs at once, how long a lease lives, how retries back off."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, TypedDict

from registry import limits
from registry.errors import (
    InvalidConcurrencyError,
    InvalidHeartbeatError,
    InvalidLeaseError,
    InvalidQueueBackoffError,
    InvalidQueueNameError,
    InvalidTransportAttemptsError,
    QueueSpecError,
)


class LeaseProfile(TypedDict):
    """A lease and its heartbeat, which only make sense together (both ms)."""

    lease_ms: int
    heartbeat_ms: int


#: ADR-114's profile, for deployments whose runs are long and whose network is slow (design 4).
ADR_114: Final[LeaseProfile] = {"lease_ms": 300_000, "heartbeat_ms": 30_000}


@dataclass(frozen=True, slots=True)
class QueueSpec:
    """One queue's settings; an impossible combination cannot be built.

    ``concurrency`` is jobs at once per worker process. ``backoff_ms`` is the delay before the first
    retry for definitions that set none. ``transport_attempts`` bounds how often the transport may
    hand out one delivery between two claims; it is never multiplied by a job's attempts (X24).

    Raises a subclass of :class:`~registry.errors.QueueSpecError`.
    """

    name: str
    concurrency: int = 1
    lease_ms: int = 60_000
    heartbeat_ms: int = 15_000
    backoff_ms: int = 5_000
    transport_attempts: int = 3

    def __post_init__(self) -> None:
        _check_name(self.name)
        self._hold("concurrency", limits.CONCURRENCY, InvalidConcurrencyError)
        self._hold("heartbeat_ms", limits.HEARTBEAT_MS, InvalidHeartbeatError)
        self._hold("lease_ms", limits.LEASE_MS, InvalidLeaseError)
        self._hold("backoff_ms", limits.BACKOFF_MS, InvalidQueueBackoffError)
        self._hold("transport_attempts", limits.TRANSPORT_ATTEMPTS, InvalidTransportAttemptsError)
        self._check_lease()

    def with_lease(self, profile: LeaseProfile) -> QueueSpec:
        """The same queue with another lease and heartbeat, for example ``ADR_114``."""
        return replace(self, lease_ms=profile["lease_ms"], heartbeat_ms=profile["heartbeat_ms"])

    def _hold(self, field: str, allowed: limits.Range, error: type[QueueSpecError]) -> None:
        value = getattr(self, field)
        if not allowed.holds(value):
            raise error(allowed.refusal(value), field=field, owner=f"queue {self.name!r}")

    def _check_lease(self) -> None:
        least = limits.HEARTBEATS_PER_LEASE * self.heartbeat_ms
        if self.lease_ms < least:
            why = (
                f"must be at least three heartbeats ({least} ms), not {self.lease_ms} ms: "
                "one late heartbeat would cost a healthy worker its job"
            )
            raise InvalidLeaseError(why, field="lease_ms", owner=f"queue {self.name!r}")


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not limits.QUEUE_NAME.fullmatch(name):
        why = f"must match {limits.QUEUE_NAME.pattern}, not {limits.shown(name)}"
        raise InvalidQueueNameError(why, field="name", owner="queue")


#: Design 4: someone waits for an interactive job, nobody waits for a background one.
DEFAULT_QUEUES: Final[tuple[QueueSpec, ...]] = (
    QueueSpec(
        "ai-interactive",
        concurrency=2,
        lease_ms=30_000,
        heartbeat_ms=10_000,
        backoff_ms=2_000,
        transport_attempts=2,
    ),
    QueueSpec(
        "ai-background",
        concurrency=1,
        lease_ms=60_000,
        heartbeat_ms=15_000,
        backoff_ms=5_000,
        transport_attempts=3,
    ),
)
