"""What the stages hand on: a claimed job, and the word that ends an attempt from outside."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from enum import StrEnum

from pydantic import BaseModel

from engine.lifecycle.lease import Claim, Lease
from engine.lifecycle.outputs import Output
from engine.lifecycle.snapshots import Snapshot
from engine.resources.credentials import Credential
from outbox.transports.base import Delivery
from registry.definition import JobDefinition
from registry.job import JobView
from registry.prompt import PromptTemplate
from registry.queues import QueueSpec


class Abort(StrEnum):
    """Why an attempt is stopped from outside; the reason picks what is written (X30)."""

    #: The attempt's time is up.
    TIMEOUT = "timeout"
    #: A cancel was requested.
    CANCEL = "cancel"
    #: The claim is lost: nothing may be written any more.
    FENCED = "fenced"
    #: The process stops: the lease is handed back.
    SHUTDOWN = "shutdown"


class Aborted(BaseException):
    """Raised in a handler's thread when its attempt was stopped; no ``except Exception`` swallows it."""

    def __init__(self, reason: Abort, *, lease: Lease | None = None) -> None:
        """Take the claim whose row gave the reason; None where the attempt's switch did."""
        super().__init__(reason.value)
        self.reason = reason
        self.lease = lease


@dataclass(frozen=True, slots=True)
class History:
    """What earlier claims of the job leave to know."""

    #: Error codes of earlier attempts, oldest first.
    error_codes: tuple[str, ...] = ()
    #: Validation errors of the attempt before, for the next prompt (X28).
    errors: tuple[str, ...] = ()


class Switch:
    """Stops one job from outside, at most once; lives on the event loop."""

    def __init__(self) -> None:
        self.reason: Abort | None = None
        #: Provider calls that were begun and have no outcome yet.
        self.calls_in_flight = 0
        #: What follows the attempt is being written, an end or the lease of the next one: this lease goes, and is
        #: not lost. Whether the write was in time the row alone decides.
        self.moving = False
        self._waiter: asyncio.Future[None] | None = None

    def trip(self, reason: Abort) -> None:
        """Stop with ``reason``; being fenced overrules what was said before."""
        if self.reason is None or reason is Abort.FENCED:
            self.reason = reason
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def waiter(self) -> asyncio.Future[None]:
        """Done as soon as the switch is tripped."""
        if self._waiter is None or self._waiter.done():
            self._waiter = asyncio.get_running_loop().create_future()
        if self.reason is not None:
            self._waiter.set_result(None)
        return self._waiter

    def check(self) -> None:
        """Raise :class:`Aborted` when tripped."""
        if self.reason is not None:
            raise Aborted(self.reason)


@dataclass(frozen=True, slots=True)
class Work:
    """A claimed job in this process, for one attempt."""

    job: JobView
    claim: Claim
    delivery: Delivery | None
    definition: JobDefinition
    queue: QueueSpec
    snapshot: Snapshot | None
    history: History = History()
    switch: Switch = field(default_factory=Switch)

    @property
    def lease(self) -> Lease:
        return self.claim.lease

    def was_stopped(self, stop: Aborted) -> bool:
        """Whether ``stop`` says what is so; a handler may have raised one of its own, which stops nothing."""
        return stop.reason is self.switch.reason or stop.lease == self.lease

    def again(self, claim: Claim, history: History) -> Work:
        """The next attempt in the same worker."""
        # The view that handler and projector see is that of the claim they work under.
        job = replace(self.job, epoch=claim.lease.epoch, attempt_count=claim.attempt_no)
        return replace(self, job=job, claim=claim, history=history)


@dataclass(frozen=True, slots=True)
class Resolved:
    """Work with everything that EXECUTE needs."""

    work: Work
    input: BaseModel
    credential: Credential | None
    prompt: PromptTemplate | None


@dataclass(frozen=True, slots=True)
class Produced:
    """A validated output, as the projector sees it and as it is stored."""

    work: Work
    value: BaseModel
    output: Output


