"""What follows a commit: a first delivery is put early, or there is a hint that a queue has something to dispatch.

Either may be lost, so nobody waits for it.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from weakref import WeakSet

from engine.intake.early import put_early
from outbox.base.telemetry import Telemetry
from outbox.errors import TransportError
from outbox.transports.base import Ticket, Transport

#: At least this much time between two rounds, in seconds: many commits need no more than one.
_GAP_S = 0.02
#: For each commit of the round before so much more, up to the longest: what starts together costs less.
_GAP_PER_COMMIT_S, _LONGEST_GAP_S = 0.002, 0.05

#: How long closing waits for the last round, in seconds.
_LAST_HINT_S = 2.0

#: Tickets kept between two rounds, at most: while Redis does not answer they would become ever more.
_KEPT = 256

_log = logging.getLogger("aijobs.wake")


def dispatcher_channel(queue: str) -> str:
    """The channel on which those wait who dispatch to ``queue``."""
    return f"dispatcher.{queue}"


def gap_s(commits: int) -> float:
    """Seconds to gather after a round for that many commits."""
    return min(_LONGEST_GAP_S, _GAP_S + _GAP_PER_COMMIT_S * commits)


class WakeHint:
    """Sends hints and early tickets from a thread of its own, coalesced; a caller only names them and goes on."""

    def __init__(self, transport: Transport, telemetry: Telemetry | None = None) -> None:
        self._transport = transport
        self._telemetry = telemetry or Telemetry()
        self._begin(closed=False)
        _hints.add(self)

    def _begin(self, *, closed: bool) -> None:
        self._closed = threading.Event()
        if closed:
            self._closed.set()
        self._queues: set[str] = set()
        self._tickets: list[Ticket] = []
        self._commits = 0
        self._asked = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def send(self, queues: Iterable[str], tickets: Sequence[Ticket] = ()) -> None:
        """Ask for a hint to the dispatchers of ``queues`` soon. Never raises and never waits.

        ``tickets`` are of deliveries that were just committed: they are put, or their queues get a hint, too.
        """
        with self._lock:
            self._queues.update(queues)
            self._tickets += tickets
            self._commits += 1
            if len(self._tickets) > _KEPT:
                self._queues.update(ticket.queue_name for ticket in self._tickets)
                self._tickets.clear()
            if not self._closed.is_set() and (self._thread is None or not self._thread.is_alive()):
                # The first hint, or the first of a process that was forked from one with a thread.
                self._start()
        self._asked.set()

    def _start(self) -> None:
        thread = threading.Thread(target=self._run, name="aijobs-wake", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            # A process without threads to spare, or at its end. The job is committed: polling covers it.
            _log.debug("no hint sent: no thread can be started")
        else:
            self._thread = thread

    def forked(self) -> None:
        """Begin anew in a child process: what the parent was asked for it sends itself.

        Its threads are not here, so a lock that one of them held would never be let go of.
        """
        self._begin(closed=self._closed.is_set())

    def close(self) -> None:
        """Stop the thread, which sends what it was asked for before: a program may end right after its last job.

        Waits a moment for that. Whoever closes the transport next must not do so under its hands.
        """
        self._closed.set()
        self._asked.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_LAST_HINT_S)

    def _run(self) -> None:
        while not self._closed.is_set():
            self._asked.wait()
            self._asked.clear()
            commits = self._tell()
            self._closed.wait(gap_s(commits))
        self._tell()

    def _tell(self) -> int:
        """One round; returns how many commits it was for."""
        with self._lock:
            commits, self._commits = self._commits, 0
            queues, self._queues = self._queues, set()
            tickets, self._tickets = self._tickets, []
        try:
            for queue in queues | {ticket.queue_name for ticket in tickets}:
                early = [ticket for ticket in tickets if ticket.queue_name == queue]
                # Where a round of a dispatcher is needed anyway, it puts them all.
                if queue in queues or not self._is_put(early):
                    self._transport.wake(dispatcher_channel(queue))
        except TransportError as error:
            # Polling covers them.
            _log.debug("no hint sent: %s", error.code)
        return commits

    def _is_put(self, tickets: Sequence[Ticket]) -> bool:
        try:
            put = put_early(self._transport, tickets)
        except TransportError as error:
            # As for a creator without rights to the queue: dispatchers have them, and other queues are in order.
            _log.debug("not put early: %s", error.code)
            return False
        if put:
            about = {"job_id": str(tickets[0].job_id)} if len(tickets) == 1 else {}
            self._telemetry.emit("outbox.early", len(tickets), queue=tickets[0].queue_name, **about)
        return put


_hints: WeakSet[WakeHint] = WeakSet()


def _after_fork() -> None:
    for hint in _hints:
        hint.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _at_exit() -> None:
    """A script may end right after its last job, without a word to its app."""
    for hint in list(_hints):
        hint.close()


atexit.register(_at_exit)


@dataclass(slots=True, eq=False)
class AfterCommit:
    """What some creations ask for when they are committed; called then."""

    wake: WakeHint
    queues: frozenset[str]
    #: Known once the database has answered; queues without any get a hint.
    tickets: list[Ticket] = field(default_factory=list)

    def doubt(self) -> None:
        """Which of the jobs will be there nobody knows here any more: dispatchers see what is committed."""
        self.tickets.clear()

    def __call__(self) -> None:
        self.wake.send(self.queues - {ticket.queue_name for ticket in self.tickets}, self.tickets)
