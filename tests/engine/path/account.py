"""The account of a walk: what ought to have become of each job, by the rules alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from engine.pipeline.work import Work
from outbox.base.points import Point, arm
from registry.job import StartReason

#: In s. Steps of time end on no lease's end: what has ended by the account has ended by the database.
LEASE, RETRY_WAIT, RATE_WAIT, DELAY = 60, 30, 10, 110
STEPS = (25, 70)
ATTEMPTS = 2


class Killed(BaseException):
    """The process was killed at a named point."""


@dataclass(slots=True)
class Fate:
    """What ought to be true of a job."""

    due: float
    status: str = "queued"
    epoch: int = 0
    attempts: int = 0
    #: The claim that may write, and when its lease ends.
    owner: int | None = None
    until: float = 0.0
    asked: bool = False
    #: What the next claim starts for.
    next: StartReason = StartReason.FIRST

    def claimed(self, epoch: int, now: float) -> None:
        self.status, self.owner, self.until, self.epoch = "running", epoch, now + LEASE, epoch

    def left(self, reason: StartReason, due: float | None = None) -> None:
        self.owner, self.next = None, reason
        self.due = self.due if due is None else due

    def ended(self, status: str) -> None:
        self.status, self.owner = status, None


@dataclass(eq=False, slots=True)
class Hand:
    """A claim in somebody's hand; `gone`: killed or frozen, it may still write late."""

    work: Work
    gone: bool = False


@contextmanager
def killed_at(at: Point | None) -> Iterator[None]:
    """The process is killed when it comes to ``at``."""

    def hook(here: Point) -> None:
        if here is at:
            raise Killed

    arm(hook)
    try:
        yield
    except Killed:
        pass
    finally:
        arm(None)
