"""OutboxDispatcher: one round takes due events, puts their tickets on Redis, and marks them.

    per queue below its high-water mark:  claim a batch  -> commit
    all tickets of the round:             one Redis round trip, no transaction open (OB-6)
    mark by id and token                  -> commit

A round may be about one queue alone, the one that a creator's hint named. Any number of dispatchers may run. One
that dies leaves rows in ``processing`` until their claim ends; the same delivery is then put again, which the
transport answers with "duplicate" (OB-7).
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from uuid import UUID

import sqlalchemy as sa

from outbox.base.backoff import exponential
from outbox.base.clock import wall_clock_ms
from outbox.base.db import UnitOfWork
from outbox.base.later import Shortfall
from outbox.base.points import Point, point
from outbox.base.telemetry import Telemetry
from outbox.depths import Depths
from outbox.errors import TicketRefused, TransportUnavailable
from outbox.events import ClaimedDelivery
from outbox.repository import OutboxRepository
from outbox.transports.base import PutResult, Ticket, Transport

#: Between the put and the mark of a round that is not full, in s. The workers that the tickets wake claim their jobs
#: meanwhile: marking at once would hold the rows that they want, and the CPU where there is little.
_MARK_PAUSE_S = 0.003

#: Runs in the transaction that marks deliveries as published, before the outbox is touched.
OnDelivered = Callable[[sa.Connection, Sequence[UUID]], None]
#: Which of some jobs can be had at once.
Free = Callable[[sa.Connection, Sequence[UUID]], Collection[UUID]]


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchOptions:
    """How a dispatcher works; times in ms."""

    batch: int = 100
    high_water_mark: int = 2_000
    max_attempts: int = 3
    backoff_ms: int = 2_000
    backoff_limit_ms: int = 60_000
    breaker_limit_ms: int = 10_000
    claim_ttl_ms: int = 60_000


@dataclass(slots=True)
class _Round:
    """What one round holds: events by their claim token."""

    claims: list[tuple[UUID, list[ClaimedDelivery]]] = field(default_factory=list)
    full: bool = False

    @property
    def events(self) -> list[ClaimedDelivery]:
        return [event for _, events in self.claims for event in events]


class OutboxDispatcher:
    """Moves events out of the database. It keeps a circuit breaker and what it knows of depths, and no event."""

    def __init__(
        self,
        *,
        uow: UnitOfWork,
        outbox: OutboxRepository,
        transport: Transport,
        queues: Sequence[str],
        owner: str,
        telemetry: Telemetry,
        options: DispatchOptions | None = None,
        on_delivered: OnDelivered = lambda _conn, _ids: None,
        free: Free = lambda _conn, ids: ids,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._uow = uow
        self._outbox = outbox
        self._transport = transport
        self._queues = tuple(queues)
        self._owner = owner
        self._telemetry = telemetry
        self._options = options or DispatchOptions()
        self._on_delivered = on_delivered
        self._free = free
        self._monotonic = monotonic
        mark, batch = self._options.high_water_mark, self._options.batch
        self._depths = Depths(transport, mark=mark, batch=batch, monotonic=monotonic)
        self._outages = 0
        self._closed_until = 0.0
        #: Queues with less room than for a batch when they were looked at last.
        self._at_mark: frozenset[str] = frozenset()
        self._rounds_at_mark = 0

    @property
    def queues(self) -> Sequence[str]:
        """What is dispatched to."""
        return self._queues

    def run_once(self, queue: str | None = None) -> bool:
        """One round over all queues, or over ``queue``; returns whether another may find something at once.

        While the breaker is open nothing is claimed: an outage of Redis uses up no attempt (OB-2). While some
        queue is at its mark all are looked at: its workers give no hint when there is room again.
        """
        if self._monotonic() < self._closed_until:
            return False
        try:
            room = self._room(self._queues if queue is None or self._at_mark else [queue])
        except TransportUnavailable as error:
            self._open_breaker(error)
            return False
        self._at_mark = self._at_mark - room.keys() | {q for q, limit in room.items() if limit < self._options.batch}
        found = self._claim(room)
        if found.claims:
            point(Point.DISPATCHER_AFTER_CLAIM)
            self._put(found)
        self._rounds_at_mark = self._rounds_at_mark + 1 if self._at_mark and not found.claims else 0
        return found.full

    @property
    def pause_ms(self) -> int:
        """How long a pause may be: short after a queue was at its mark, longer while nobody empties it."""
        return min(60_000, 25 * 2 ** min(self._rounds_at_mark, 11)) if self._at_mark else 60_000

    # -------------------------------------------------------------- claiming

    def _room(self, queues: Sequence[str]) -> dict[str, int]:
        limit = self._options
        return {q: min(limit.batch, limit.high_water_mark - deep) for q, deep in self._depths.of(queues).items()}

    def _claim(self, room: Mapping[str, int]) -> _Round:
        found = _Round()
        for queue, limit in room.items():
            if limit <= 0:
                continue
            token, events = self._claim_queue(queue, limit)
            if token and events:
                found.claims.append((token, events))
            # Only a full batch promises more; a queue at its mark waits for its workers.
            found.full = found.full or len(events) == self._options.batch
        return found

    def _claim_queue(self, queue: str, limit: int) -> tuple[UUID | None, list[ClaimedDelivery]]:
        try:
            # Were the answer to COMMIT lost, the first claim ends by itself and a second one is taken (OB-7).
            return self._uow.run(
                lambda conn: self._outbox.claim_deliveries(conn, queue, limit=limit, owner=self._owner),
                repeatable=True,
            )
        except Shortfall:
            # Whoever was faster has the events, and none of them is ours (DB-4).
            self._telemetry.emit("outbox.claim_lost")
            return None, []

    # -------------------------------------------------------------- putting and marking

    def _put(self, found: _Round) -> None:
        try:
            answers = self._put_tickets([_ticket(event) for event in found.events])
        except TransportUnavailable as error:
            self._give_back(found, error)
            self._open_breaker(error)
            return
        point(Point.DISPATCHER_AFTER_PUT)
        self._outages = 0
        if not found.full:
            time.sleep(_MARK_PAUSE_S)
        refused = {e.id: a for e, a in zip(found.events, answers, strict=True) if isinstance(a, TicketRefused)}
        for token, events in found.claims:
            self._publish(token, [event for event in events if event.id not in refused])
            for event in events:
                if event.id in refused:
                    self._refuse(event, token, refused[event.id].code)

    def _put_tickets(self, tickets: Sequence[Ticket]) -> list[PutResult | TicketRefused]:
        try:
            answers = self._transport.put_many(tickets)
        except TransportUnavailable:
            raise
        except Exception as error:  # noqa: BLE001 - it is narrowed down to the ticket that causes it
            if len(tickets) == 1:
                return [TicketRefused(f"The ticket cannot be put: {type(error).__name__}.", ticket_id="")]
            # One event with a defect must not hold up the others of its batch, round after round (OB-4).
            return [answer for ticket in tickets for answer in self._put_tickets([ticket])]
        for queue, count in Counter(ticket.queue_name for ticket in tickets).items():
            self._depths.add(queue, count)
        return answers

    def _publish(self, token: UUID, events: Sequence[ClaimedDelivery]) -> None:
        if not events:
            return
        ids = [event.id for event in events]
        # In the order of their keys, like everybody who locks several jobs.
        jobs = sorted({event.job_id for event in events}, key=attrgetter("int"))
        runs = itertools.count()

        def unit(conn: sa.Connection, mark: Callable[[sa.Connection, Sequence[UUID], UUID], int]) -> int:
            # Who holds a job for longer than one wait lasts, as a worker that was frozen, holds up that one alone.
            free = self._free(conn, jobs) if next(runs) else set(jobs)
            self._on_delivered(conn, [job for job in jobs if job in free])
            return mark(conn, ids, token)

        # Should the answer to COMMIT be lost, marking again changes nothing.
        try:
            marked = self._uow.run(partial(unit, mark=self._outbox.mark_all_published), repeatable=True)
        except Shortfall:
            marked = self._uow.run(partial(unit, mark=self._outbox.mark_published), repeatable=True)
        point(Point.DISPATCHER_AFTER_MARK)
        about = {"job_id": str(jobs[0])} if len(jobs) == 1 else {}
        self._telemetry.emit("outbox.published", marked, **about)
        if marked != len(ids):
            self._telemetry.emit("outbox.claim_lost", len(ids) - marked, **about)

    def _give_back(self, found: _Round, error: TransportUnavailable) -> None:
        for token, events in found.claims:
            ids = [event.id for event in events]
            self._uow.run(
                lambda conn, ids=ids, token=token: self._outbox.give_back(conn, ids, token, error.code),  # type: ignore[misc]
                repeatable=True,
            )

    def _refuse(self, event: ClaimedDelivery, token: UUID, code: str) -> None:
        limit = self._options
        delay = exponential(event.attempt_count + 1, base_ms=limit.backoff_ms, limit_ms=limit.backoff_limit_ms)
        self._uow.run(
            lambda conn: self._outbox.refuse(
                conn, event.id, token, code, max_attempts=limit.max_attempts, delay_ms=delay
            ),
            repeatable=True,
        )
        dead = event.attempt_count + 1 >= limit.max_attempts
        self._telemetry.emit("outbox.dead" if dead else "outbox.refused", job_id=str(event.job_id), code=code)

    # -------------------------------------------------------------- the breaker

    def _open_breaker(self, error: TransportUnavailable) -> None:
        self._outages += 1
        self._depths.forget()
        pause = exponential(self._outages, base_ms=100, limit_ms=self._options.breaker_limit_ms)
        self._closed_until = self._monotonic() + pause / 1000
        self._telemetry.emit("outbox.transport_unavailable", reason=error.reason, pause_ms=pause)


def _ticket(event: ClaimedDelivery) -> Ticket:
    return Ticket(
        job_id=event.job_id,
        job_type=event.job_type,
        queue_name=event.queue_name,
        delivery_no=event.delivery_no,
        deliver_score=event.deliver_score,
        created_at_ms=wall_clock_ms(),
        traceparent=event.traceparent,
    )
