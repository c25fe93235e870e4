"""What the suite speaks in: events in every state, and everything that may be tried on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import pytest
import sqlalchemy as sa

from outbox.base.clock import DatabaseClock
from outbox.base.db import UnitOfWork
from outbox.events import ClaimedEvent, EventType, NewEvent
from outbox.models import OUTBOX_EVENT
from outbox.repository import OutboxRepository
from outbox.states import EventStatus

OWNER = "dispatcher-a"
CLAIM_TTL_MS = 60_000
MAX_ATTEMPTS = 3
DAY_MS = 86_400_000

#: Something that may be tried on an event: (connection, event id, job id, token) -> how many rows it changed.
Act = Callable[[sa.Connection, UUID, UUID, UUID], Any]


class Desk:
    """A repository on a database. Every test has a queue of its own, so that tests may share tables."""

    def __init__(self, outbox: OutboxRepository, uow: UnitOfWork, clock: DatabaseClock) -> None:
        self.outbox = outbox
        self.uow = uow
        self.clock = clock
        self.queue = _a_queue()

    def event(self, **fields: Any) -> NewEvent:
        """A delivery of a new job, due now."""
        values: dict[str, Any] = {
            "event_type": EventType.ENQUEUE, "job_id": uuid4(), "job_type": "synthetic",
            "queue_name": self.queue, "priority": 50, "delivery_no": 1,
        }  # fmt: skip
        return NewEvent(**(values | fields))

    def append(self, *events: NewEvent) -> None:
        """Write events in a transaction of their own."""
        self.uow.run(lambda conn: self.outbox.append(conn, events))

    def appended(self, **fields: Any) -> NewEvent:
        """A new pending event."""
        event = self.event(**fields)
        self.append(event)
        return event

    def claim(self, limit: int = 100, **how: Any) -> tuple[UUID, list[ClaimedEvent]]:
        """Claim deliveries of this test's queue."""
        types = how.pop("types", [EventType.ENQUEUE])
        owner = how.pop("owner", OWNER)
        queue = how.pop("queue", self.queue)
        return self.uow.run(
            lambda conn: self.outbox.claim(conn, queue, types, limit=limit, owner=owner)
        )

    def claimed(self, **fields: Any) -> tuple[NewEvent, UUID]:
        """A new event in our hands, and the token of the claim."""
        event = self.appended(**{"queue_name": _a_queue()} | fields)
        token, [found] = self.claim(queue=event.queue_name)
        assert found.id == event.id
        return event, token

    def row(self, event: NewEvent) -> dict[str, Any]:
        """Every column of an event."""
        query = sa.select(OUTBOX_EVENT).where(OUTBOX_EVENT.c.id == event.id)
        return dict(self.uow.read(lambda conn: conn.execute(query).mappings().one()))

    def exists(self, event: NewEvent) -> bool:
        """Whether the event is still there."""
        query = sa.select(OUTBOX_EVENT.c.id).where(OUTBOX_EVENT.c.id == event.id)
        return self.uow.read(lambda conn: conn.execute(query).first()) is not None

    def status(self, event: NewEvent) -> EventStatus:
        """The state of an event."""
        return EventStatus(self.row(event)["status"])

    def refuse(self, event: NewEvent, token: UUID, *, max_attempts: int = MAX_ATTEMPTS, delay_ms: int = 0) -> int:
        """Blame a claimed event once."""
        return self.uow.run(
            lambda conn: self.outbox.refuse(
                conn, event.id, token, "REFUSED", max_attempts=max_attempts, delay_ms=delay_ms
            )
        )

    def an_event(self, status: EventStatus) -> tuple[NewEvent, UUID]:
        """A new event in ``status``, brought there by the repository; with the last token it was claimed under."""
        if status is EventStatus.PENDING:
            return self.appended(), uuid4()
        event, token = self.claimed()
        acts: dict[EventStatus, tuple[str, ...]] = {
            EventStatus.PROCESSING: (),
            EventStatus.PUBLISHED: ("mark_published",),
            EventStatus.DEAD: ("refuse_for_good",),
            EventStatus.OBSOLETE: ("give_back", "mark_obsolete"),
            EventStatus.DISCARDED: ("refuse_for_good", "discard"),
        }
        for name in acts[status]:
            assert self.run(name, event, token) == 1, (status, name)
        assert self.status(event) is status
        return event, token

    def run(self, name: str, event: NewEvent, token: UUID) -> int:
        """Try one act in a transaction of its own; returns how many rows it changed."""
        return int(self.uow.run(lambda conn: self.acts()[name](conn, event.id, event.job_id, token)))

    def acts(self) -> dict[str, Act]:
        """Everything that changes an event, by name."""
        it = self.outbox

        def claim(conn: sa.Connection, id_: UUID, _job: UUID, _token: UUID) -> int:
            queue = conn.execute(sa.select(OUTBOX_EVENT.c.queue_name).where(OUTBOX_EVENT.c.id == id_)).scalar_one()
            _, found = it.claim(conn, queue, [EventType.ENQUEUE], limit=500, owner=OWNER)
            return sum(event.id == id_ for event in found)

        def obsolete(conn: sa.Connection, id_: UUID, job: UUID, _token: UUID) -> int:
            status = sa.select(OUTBOX_EVENT.c.status).where(OUTBOX_EVENT.c.id == id_)
            before = conn.execute(status).scalar_one()
            it.mark_obsolete(conn, [job], EventType.ENQUEUE)
            return int(conn.execute(status).scalar_one() != before)

        return {
            "claim": claim,
            "mark_published": lambda c, id_, _job, token: it.mark_published(c, [id_], token),
            "give_back": lambda c, id_, _job, token: it.give_back(c, [id_], token, "AWAY"),
            "refuse": lambda c, id_, _job, token: it.refuse(
                c, id_, token, "REFUSED", max_attempts=MAX_ATTEMPTS, delay_ms=0
            ),
            "refuse_for_good": lambda c, id_, _job, token: it.refuse(
                c, id_, token, "REFUSED", max_attempts=1, delay_ms=0
            ),
            "mark_obsolete": obsolete,
            "revive": lambda c, id_, _job, _token: it.revive(c, id_),
            "discard": lambda c, id_, _job, _token: it.discard(c, id_, "no longer needed"),
        }


def _a_queue() -> str:
    return f"q-{uuid4().hex[:20]}"


class Promises:
    """A chapter of the suite: what it is run on. A subclass supplies ``uow``."""

    @pytest.fixture
    def uow(self) -> UnitOfWork:
        """On a database with all tables."""
        raise NotImplementedError("supply a fixture `uow`")

    @pytest.fixture
    def clock(self) -> DatabaseClock:
        """The clock that the repository was made with; the suite moves it."""
        return DatabaseClock()

    @pytest.fixture
    def outbox(self, clock: DatabaseClock) -> OutboxRepository:
        """The repository under test."""
        return OutboxRepository(clock)

    @pytest.fixture
    def desk(self, outbox: OutboxRepository, uow: UnitOfWork, clock: DatabaseClock) -> Desk:
        """All three together."""
        return Desk(outbox, uow, clock)
