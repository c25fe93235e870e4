"""The transport protocol: what every carrier of tickets must do, and the values it speaks in.

Rules for all methods (design 9):

- synchronous, called from threads, safe to call from many threads at once;
- times are milliseconds; the transport's own clock counts, never the clock of a host;
- they raise subclasses of ``TransportError`` only. ``TransportUnavailable`` means broker-wide
  trouble, blames no ticket and may be answered by backing off; what a failed call had done is
  unknown, and calling again is always safe;
- a batch costs one round trip.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol
from uuid import UUID

from outbox.errors import TicketRefused
from outbox.job_ids import ticket_id

#: Largest number of tickets one claim hands out: a longer script would keep the broker from others.
MAX_CLAIM = 64
#: Tickets of a queue that a put for idle queues takes whole.
MAX_IDLE_PUT = 64
#: How long a cancel hint is kept; after that the column in SQL alone speaks (design 9).
CANCEL_HINT_MS = 3_600_000
#: A worker that has not been heard of for this long is no longer listed.
PRESENCE_MS = 90_000
#: Scores must survive a double, which is what Lua and sorted sets count in.
MAX_SCORE = 2**53 - 1
#: How soon a blocking wait notices that its caller has been stopped, in seconds; asks nobody but the caller.
STOP_NOTICED_S = 0.05

#: Whether a caller that waits has been stopped.
Stopped = Callable[[], bool]


def never() -> bool:
    """The answer of a caller that nobody stops."""
    return False


@dataclass(frozen=True, slots=True)
class Ticket:
    """A wake-up hint for one delivery of one job; ids and names only, no input, key or user."""

    job_id: UUID
    job_type: str
    queue_name: str
    #: Counts from 1; a put with a number that is not higher than the known one is a no-op.
    delivery_no: int
    #: Place in the queue, lower first: ``max(created, available_at) + priority x step`` (design 8).
    deliver_score: int
    created_at_ms: int
    #: W3C trace context; anything else than a well-formed ``traceparent`` is left out on the wire.
    traceparent: str | None = None

    @property
    def ticket_id(self) -> str:
        """The job's id on the transport; raises ``InvalidTicketId``."""
        return ticket_id(self.queue_name, self.job_type, self.job_id)


@dataclass(frozen=True, slots=True)
class Delivery:
    """A ticket handed to a worker, under an execution id that no other hand-out has."""

    ticket: Ticket
    execution_id: str
    #: How often this same delivery was handed out by now; a caller may bound it (design 4).
    handout: int = 1


class PutResult(StrEnum):
    """What a put found."""

    #: The ticket was not known.
    NEW = "new"
    #: A lower delivery number was known: its executions were dropped, the job is queued again.
    NEWER = "newer"
    #: The same or a higher delivery number is known: nothing was changed.
    DUPLICATE = "duplicate"
    #: It was to be put where nothing waits, and something does: nothing was changed.
    BUSY = "busy"


class Settlement(StrEnum):
    """How a settled ticket is shown by the broker's own tools; it decides nothing (TR-5)."""

    FINISHED = "finished"
    FAILED = "failed"
    CANCELED = "canceled"


@dataclass(frozen=True, slots=True)
class HeartbeatReport:
    """What a heartbeat learnt, as execution ids."""

    #: Not ours any more, or unknown to the broker: ask SQL before aborting anything (design 9).
    lost: frozenset[str] = frozenset()
    #: A cancel hint stands for the job.
    cancelled: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class WorkerPresence:
    """A worker or a dispatcher that was heard of within the last 90 s."""

    name: str
    queues: tuple[str, ...]
    hostname: str
    pid: int
    #: Milliseconds since it registered, and since it was last heard of.
    up_ms: int
    silent_ms: int
    #: Executions it holds at the broker.
    executing: int


@dataclass(frozen=True, slots=True)
class Features:
    """What a transport can do beyond the protocol."""

    #: Tickets put in one process can be claimed in another.
    cross_process: bool
    #: ``wait`` sleeps at the broker instead of asking every few milliseconds.
    blocking_wait: bool
    #: RQ's own tools can read the data.
    visible_to_rq: bool


class EndedJobs(Protocol):
    """Hears of jobs that may have ended, from the moment it was made. Best effort: the database is to be asked."""

    def wait(self, timeout_ms: int, stopped: Stopped = never) -> frozenset[UUID]:
        """Return the ids that came, waiting at most that long; empty = none came, or ``stopped``."""
        ...

    def close(self) -> None:
        """Hear no more; it may not be used afterwards."""
        ...


class Transport(Protocol):
    """A carrier of tickets. See the module text for the rules that hold for every method."""

    @property
    def features(self) -> Features:
        """What this transport can do beyond the protocol."""
        ...

    def put_many(
        self, tickets: Sequence[Ticket], *, if_idle: bool = False
    ) -> list[PutResult | TicketRefused]:
        """Queue each ticket at the place its score gives; answers in the order of the tickets.

        A refused ticket does not hinder the others: its answer is a ``TicketRefused``, not raised. With
        ``if_idle`` the tickets of a queue in which others wait already are left out (``BUSY``), up to
        ``MAX_IDLE_PUT`` of a queue all or none; of more, the first may be in the way of the rest.
        """
        ...

    def depth(self, queues: Sequence[str]) -> dict[str, int]:
        """Return the number of waiting tickets per queue."""
        ...

    def wait(self, queue: str, timeout_ms: int, stopped: Stopped = never) -> bool:
        """Block until the queue has a ticket, at most that long; consumes nothing.

        A wait whose caller is ``stopped`` meanwhile ends early, as if nothing had come.
        """
        ...

    def claim(
        self, queue: str, limit: int, worker: str, lease_ms: int, *, wait_ms: int = 0, stopped: Stopped = never
    ) -> list[Delivery]:
        """Hand out up to ``min(limit, MAX_CLAIM)`` tickets, lowest score first.

        Where there are none it waits for some, ``wait_ms`` at most, or until its caller is ``stopped``. Not
        repeatable: when the answer is lost, ``recover`` brings the tickets back.
        """
        ...

    def heartbeat(
        self, worker: str, deliveries: Sequence[Delivery], lease_ms: int
    ) -> HeartbeatReport:
        """Renew the worker's presence and the lease of its executions."""
        ...

    def finish_many(self, worker: str, items: Sequence[tuple[Delivery, Settlement]]) -> list[bool]:
        """Take settled tickets off the broker; False = the execution was no longer ours.

        Whoever listens hears of their jobs, in the same round trip.
        """
        ...

    def defer_many(self, items: Sequence[tuple[Delivery, int]]) -> list[bool]:
        """Give executions back; the same delivery comes again after so many ms. False = not ours.

        A delay of 0 or less puts the ticket back at once.
        """
        ...

    def recover(self, queue: str, limit: int = 200) -> int:
        """Put ended executions and due deferred tickets back at their place; returns how many."""
        ...

    def alive(self, tickets: Sequence[tuple[str, str, UUID]]) -> list[bool]:
        """Say for each (queue, job type, job id) if a ticket waits, executes or is deferred."""
        ...

    def cancel(self, queue: str, job_type: str, job_id: UUID) -> None:
        """Leave a cancel hint for 1 h and drop the ticket if it is waiting or deferred.

        Whoever listens hears of the job.
        """
        ...

    def listen(self) -> EndedJobs:
        """Begin to hear of jobs whose tickets are settled or cancelled, in whichever process."""
        ...

    def wake(self, channel: str) -> None:
        """Leave a token on the channel unless one is there already."""
        ...

    def wait_wake(self, channels: Sequence[str], timeout_ms: int, stopped: Stopped = never) -> str | None:
        """Take the token of one of ``channels``, waiting at most that long; None = none came, or ``stopped``.

        Returns the channel; of several that have one the first named goes first.
        """
        ...

    def register_worker(self, worker: str, queues: Sequence[str]) -> None:
        """Announce a worker; heartbeats keep it listed, also over a loss of the broker's data."""
        ...

    def register_dispatcher(self, dispatcher: str) -> None:
        """Announce a dispatcher, apart from the workers; a heartbeat of nothing keeps it listed."""
        ...

    def unregister_worker(self, worker: str) -> None:
        """Take a worker or dispatcher off its list; executions end with their leases."""
        ...

    def workers(self) -> list[WorkerPresence]:
        """Return the workers heard of within the last 90 s, by name."""
        ...

    def dispatchers(self) -> list[WorkerPresence]:
        """Return the dispatchers heard of within the last 90 s, by name; they serve no queue."""
        ...

    def check(self) -> list[str]:
        """Return what is wrong with the broker's set-up, one sentence each; empty = fine."""
        ...

    def close(self) -> None:
        """Let go of all connections; the transport may not be used afterwards."""
        ...


class SteerableTransport(Transport, Protocol):
    """A transport whose clock a test can move; the conformance suite needs one."""

    def advance(self, ms: int) -> None:
        """Move this transport's clock forward by so many ms."""
        ...


def check_ticket(ticket: Ticket) -> str:
    """Return the ticket's id, or raise ``TicketRefused`` when no transport could carry it."""
    id_ = ticket.ticket_id
    if ticket.delivery_no < 1:
        raise TicketRefused("The delivery number is below 1.", ticket_id=id_)
    if not 0 <= ticket.deliver_score <= MAX_SCORE:
        raise TicketRefused("The deliver score is out of range.", ticket_id=id_)
    return id_
