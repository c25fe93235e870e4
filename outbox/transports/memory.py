"""The transport inside one process: no broker, the same promises.

For tests, demos and embedded use. Everything stands behind one lock; waiting sleeps on a condition.
"""

from __future__ import annotations

import itertools
import os
import socket
import threading
import time
from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from outbox.errors import TicketRefused
from outbox.job_ids import ticket_id
from outbox.transports.base import (
    CANCEL_HINT_MS,
    MAX_CLAIM,
    PRESENCE_MS,
    STOP_NOTICED_S,
    Delivery,
    EndedJobs,
    Features,
    HeartbeatReport,
    PutResult,
    Settlement,
    Stopped,
    Ticket,
    WorkerPresence,
    check_ticket,
    never,
)
from outbox.transports.listeners import Listeners


@dataclass(slots=True)
class _Entry:
    """A known ticket; one of place (waiting), lease_end (executing) and due (deferred) is set."""

    ticket: Ticket
    place: tuple[int, int, str] | None = None
    lease_end: int | None = None
    due: int | None = None
    execution_id: str = ""
    worker: str = ""
    handouts: int = 0


@dataclass(slots=True)
class _Worker:
    #: None: it is a dispatcher.
    queues: tuple[str, ...] | None
    since: int
    seen: int


@dataclass(slots=True)
class _Queue:
    waiting: list[tuple[int, int, str]] = field(default_factory=list)


class MemoryTransport:
    """Tickets in this process's memory; gone with it, which is allowed: SQL is the truth."""

    features = Features(cross_process=False, blocking_wait=True, visible_to_rq=False)

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._entries: dict[str, _Entry] = {}
        self._queues: dict[str, _Queue] = {}
        self._cancelled: dict[UUID, int] = {}
        self._tokens: set[str] = set()
        self._listeners = Listeners()
        self._workers: dict[str, _Worker] = {}
        self._serial = itertools.count()
        self._offset_ms = 0

    # ------------------------------------------------------------------ the dispatcher's side

    def put_many(
        self, tickets: Sequence[Ticket], *, if_idle: bool = False
    ) -> list[PutResult | TicketRefused]:
        """See :meth:`Transport.put_many`."""
        with self._changed:
            busy = {name for name, queue in self._queues.items() if if_idle and queue.waiting}
            answers = [self._put(ticket, busy=ticket.queue_name in busy) for ticket in tickets]
            self._changed.notify_all()
            return answers

    def _put(self, ticket: Ticket, *, busy: bool) -> PutResult | TicketRefused:
        try:
            check_ticket(ticket)
        except TicketRefused as refusal:
            return refusal
        if busy:
            return PutResult.BUSY
        known = self._entries.get(ticket.ticket_id)
        if known and known.ticket.delivery_no >= ticket.delivery_no:
            return PutResult.DUPLICATE
        if known:
            self._forget(known)
        self._entries[ticket.ticket_id] = entry = _Entry(ticket)
        self._line_up(entry)
        return PutResult.NEWER if known else PutResult.NEW

    def depth(self, queues: Sequence[str]) -> dict[str, int]:
        """See :meth:`Transport.depth`."""
        with self._changed:
            return {name: len(self._queue(name).waiting) for name in queues}

    def alive(self, tickets: Sequence[tuple[str, str, UUID]]) -> list[bool]:
        """See :meth:`Transport.alive`."""
        with self._changed:
            return [ticket_id(*parts) in self._entries for parts in tickets]

    def cancel(self, queue: str, job_type: str, job_id: UUID) -> None:
        """See :meth:`Transport.cancel`."""
        with self._changed:
            self._cancelled[job_id] = self._now() + CANCEL_HINT_MS
            entry = self._entries.get(ticket_id(queue, job_type, job_id))
            if entry and entry.lease_end is None:
                self._forget(entry)
        self._listeners.tell([job_id])

    # ------------------------------------------------------------------ the worker's side

    def wait(self, queue: str, timeout_ms: int, stopped: Stopped = never) -> bool:
        """See :meth:`Transport.wait`."""
        return self._wait_until(lambda: bool(self._queue(queue).waiting), timeout_ms, stopped)

    def claim(
        self, queue: str, limit: int, worker: str, lease_ms: int, *, wait_ms: int = 0, stopped: Stopped = never
    ) -> list[Delivery]:
        """See :meth:`Transport.claim`."""
        with self._changed:
            if limit > 0 and wait_ms > 0:
                self.wait(queue, wait_ms, stopped)
            waiting = self._queue(queue).waiting
            places = waiting[: max(0, min(limit, MAX_CLAIM))]
            return [self._hand_out(place[2], worker, lease_ms) for place in places]

    def _hand_out(self, id_: str, worker: str, lease_ms: int) -> Delivery:
        entry = self._entries[id_]
        self._leave_line(entry)
        entry.lease_end = self._now() + lease_ms
        entry.execution_id, entry.worker = f"m{next(self._serial):x}", worker
        entry.handouts += 1
        return Delivery(entry.ticket, entry.execution_id, entry.handouts)

    def heartbeat(
        self, worker: str, deliveries: Sequence[Delivery], lease_ms: int
    ) -> HeartbeatReport:
        """See :meth:`Transport.heartbeat`."""
        with self._changed:
            now = self._now()
            if worker in self._workers:
                self._workers[worker].seen = now
            lost, cancelled = set(), set()
            for delivery in deliveries:
                entry = self._held(delivery)
                if entry is None:
                    lost.add(delivery.execution_id)
                    continue
                entry.lease_end = now + lease_ms
                if self._cancelled.get(delivery.ticket.job_id, now) > now:
                    cancelled.add(delivery.execution_id)
            return HeartbeatReport(frozenset(lost), frozenset(cancelled))

    def finish_many(self, worker: str, items: Sequence[tuple[Delivery, Settlement]]) -> list[bool]:
        """See :meth:`Transport.finish_many`."""
        with self._changed:
            settled = [self._settle(delivery) for delivery, _ in items]
        self._listeners.tell(delivery.ticket.job_id for delivery, _ in items)
        return settled

    def _settle(self, delivery: Delivery) -> bool:
        entry = self._held(delivery)
        if entry is None:
            return False
        self._forget(entry)
        return True

    def defer_many(self, items: Sequence[tuple[Delivery, int]]) -> list[bool]:
        """See :meth:`Transport.defer_many`."""
        with self._changed:
            answers = [self._defer(delivery, delay_ms) for delivery, delay_ms in items]
            self._changed.notify_all()
            return answers

    def _defer(self, delivery: Delivery, delay_ms: int) -> bool:
        entry = self._held(delivery)
        if entry is None:
            return False
        if delay_ms > 0:
            entry.lease_end, entry.due = None, self._now() + delay_ms
        else:
            self._line_up(entry)
        return True

    def recover(self, queue: str, limit: int = 200) -> int:
        """See :meth:`Transport.recover`."""
        with self._changed:
            now = self._now()
            back = [e for e in self._entries.values() if self._may_return(e, queue, now)][:limit]
            for entry in back:
                self._line_up(entry)
            self._cancelled = {job: end for job, end in self._cancelled.items() if end > now}
            self._changed.notify_all()
            return len(back)

    # ------------------------------------------------------------------ hints and presence

    def wake(self, channel: str) -> None:
        """See :meth:`Transport.wake`."""
        with self._changed:
            self._tokens.add(channel)
            self._changed.notify_all()

    def wait_wake(self, channels: Sequence[str], timeout_ms: int, stopped: Stopped = never) -> str | None:
        """See :meth:`Transport.wait_wake`."""
        with self._changed:
            self._wait_until(lambda: not self._tokens.isdisjoint(channels), timeout_ms, stopped)
            found = next((channel for channel in channels if channel in self._tokens), None)
            self._tokens -= {found}
            return found

    def listen(self) -> EndedJobs:
        """See :meth:`Transport.listen`."""
        return self._listeners.add()

    def register_worker(self, worker: str, queues: Sequence[str]) -> None:
        """See :meth:`Transport.register_worker`."""
        with self._changed:
            self._workers[worker] = _Worker(tuple(queues), self._now(), self._now())

    def register_dispatcher(self, dispatcher: str) -> None:
        """See :meth:`Transport.register_dispatcher`."""
        with self._changed:
            self._workers[dispatcher] = _Worker(None, self._now(), self._now())

    def unregister_worker(self, worker: str) -> None:
        """See :meth:`Transport.unregister_worker`."""
        with self._changed:
            self._workers.pop(worker, None)

    def workers(self) -> list[WorkerPresence]:
        """See :meth:`Transport.workers`."""
        return self._present(lambda one: one.queues is not None)

    def dispatchers(self) -> list[WorkerPresence]:
        """See :meth:`Transport.dispatchers`."""
        return self._present(lambda one: one.queues is None)

    def _present(self, wanted: Callable[[_Worker], bool]) -> list[WorkerPresence]:
        with self._changed:
            now = self._now()
            live = [(n, w) for n, w in sorted(self._workers.items()) if wanted(w) and now - w.seen < PRESENCE_MS]
            return [self._presence(name, worker, now) for name, worker in live]

    def _presence(self, name: str, worker: _Worker, now: int) -> WorkerPresence:
        executing = sum(
            1 for e in self._entries.values() if e.lease_end is not None and e.worker == name
        )
        return WorkerPresence(
            name=name,
            queues=worker.queues or (),
            hostname=socket.gethostname(),
            pid=os.getpid(),
            up_ms=now - worker.since,
            silent_ms=now - worker.seen,
            executing=executing,
        )

    # ------------------------------------------------------------------ housekeeping

    def check(self) -> list[str]:
        """See :meth:`Transport.check`."""
        return []

    def close(self) -> None:
        """See :meth:`Transport.close`."""

    def advance(self, ms: int) -> None:
        """Move the clock forward by so many ms."""
        with self._changed:
            self._offset_ms += ms
            self._changed.notify_all()

    def _now(self) -> int:
        return time.monotonic_ns() // 1_000_000 + self._offset_ms

    def _wait_until(self, true: Callable[[], bool], timeout_ms: int, stopped: Stopped) -> bool:
        deadline = time.monotonic() + max(0, timeout_ms) / 1000
        with self._changed:
            while not true() and not stopped():
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    return False
                # Nobody notifies of a stop.
                self._changed.wait(left_s if stopped is never else min(left_s, STOP_NOTICED_S))
            return true()

    def _queue(self, name: str) -> _Queue:
        return self._queues.setdefault(name, _Queue())

    def _held(self, delivery: Delivery) -> _Entry | None:
        """The entry, when exactly this execution still holds it."""
        entry = self._entries.get(delivery.ticket.ticket_id)
        if entry is None or entry.lease_end is None:
            return None
        return entry if entry.execution_id == delivery.execution_id else None

    def _line_up(self, entry: _Entry) -> None:
        """Put the ticket behind those with the same score."""
        entry.lease_end = entry.due = None
        ticket = entry.ticket
        entry.place = (ticket.deliver_score, next(self._serial), ticket.ticket_id)
        insort(self._queue(ticket.queue_name).waiting, entry.place)

    def _leave_line(self, entry: _Entry) -> None:
        if entry.place is not None:
            waiting = self._queue(entry.ticket.queue_name).waiting
            del waiting[bisect_left(waiting, entry.place)]
            entry.place = None

    def _forget(self, entry: _Entry) -> None:
        self._leave_line(entry)
        self._entries.pop(entry.ticket.ticket_id, None)

    @staticmethod
    def _may_return(entry: _Entry, queue: str, now: int) -> bool:
        ends = entry.lease_end if entry.lease_end is not None else entry.due
        return entry.ticket.queue_name == queue and ends is not None and ends <= now
