"""What the kit is told: the places it works on, and the times of the engines it starts there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Role = Literal["creator", "dispatcher", "worker"]
Act = Literal["kill", "freeze", "say"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where a process of the kit works; ``prefix`` keeps the kit's keys in Redis apart from others."""

    database_url: str
    redis_url: str
    prefix: str = "crashkit"
    #: Where provider calls are counted; the same database unless that one is what is being hurt.
    calls_url: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """The engine's times in the kit's processes, in ms: short, in the proportions of the real ones."""

    lease_ms: int = 3_000
    heartbeat_ms: int = 750
    upkeep_ms: int = 500
    redelivery_ms: int = 1_500
    claim_ttl_ms: int = 2_000
    poll_ms: int = 250
    grace_ms: int = 10_000
    idle_transaction_ms: int = 2_000

    @property
    def after_crash_ms(self) -> int:
        """The promise after a crash: one lease and one round of whoever recovers (promise 3).

        Upkeep takes jobs back, each worker takes tickets back twice per lease.
        """
        return self.lease_ms + max(self.upkeep_ms, self.lease_ms // 2, 1_000)

    @property
    def after_loss_ms(self) -> int:
        """The promise after Redis lost everything: one redelivery interval and one round of upkeep."""
        return self.redelivery_ms + self.upkeep_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One job the kit creates, and how it has to end."""

    key: str
    job_type: str = "crashkit_call"
    #: How long its provider call takes, in ms.
    call_ms: int = 50
    #: How many attempts fail first.
    fail_times: int = 0
    ends: str = "succeeded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What one child process is to be. Travels to it as JSON over a pipe, since URLs hold passwords."""

    name: str
    role: Role
    places: Places
    times: Times
    queue: str
    slots: int = 4
    #: Where to act, how, and after how many passes.
    point: str | None = None
    act: Act = "kill"
    skip: int = 0
    #: Worker: whether it knows the newest job type. Dispatcher: whether it carries upkeep.
    knows_new: bool = True
    upkeep: bool = True
    #: How far this process's wall clock is off, in seconds.
    clock_s: int = 0
    #: Protections to be left out, to see that the kit notices.
    controls: tuple[str, ...] = ()
    #: Creator: what to create, and how long to wait between two, in ms.
    jobs: tuple[Job, ...] = ()
    pace_ms: int = 0
    #: Creator: whether it puts first tickets itself where nothing waits.
    early: bool = True

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Order:
        """The inverse of :meth:`to_json`."""
        return cls(
            **dict(values)
            | {
                "places": Places(**values["places"]),
                "times": Times(**values["times"]),
                "controls": tuple(values["controls"]),
                "jobs": tuple(Job(**job) for job in values["jobs"]),
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class KitOptions:
    """One run of the kit."""

    places: Places
    times: Times = field(default_factory=Times)
    #: How much later than promised a recovery may be seen: starting processes, a busy machine; in ms.
    slack_ms: int = 5_000
    #: How long anything may take before it counts as stuck, in seconds.
    patience_s: float = 60.0
    #: Faults that are tried at the same time.
    at_once: int = 3


def jobs(count: int, *, stem: str = "j", **of_each: Any) -> tuple[Job, ...]:
    """``count`` jobs alike but for their keys."""
    return tuple(Job(key=f"{stem}{number}", **of_each) for number in range(count))


def mixed(stem: str = "j", **of_each: Any) -> tuple[Job, ...]:
    """One job for each way through a worker: with a projector, without one, and in a thread."""
    kinds: Sequence[str] = ("crashkit_call", "crashkit_plain", "crashkit_thread")
    return tuple(Job(key=f"{stem}-{kind}", job_type=kind, **of_each) for kind in kinds)
