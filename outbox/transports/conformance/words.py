"""The short words in which the suite speaks, and the fixtures a subclass supplies."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest

from outbox.errors import TicketRefused
from outbox.transports.base import (
    MAX_CLAIM,
    Delivery,
    HeartbeatReport,
    PutResult,
    Settlement,
    SteerableTransport,
    Stopped,
    Ticket,
    Transport,
    never,
)

QUEUE = "ai-background"
OTHER_QUEUE = "ai-interactive"
JOB_TYPE = "synthetic"
WORKER = "worker-1"
LEASE_MS = 60_000
#: A score as the engine makes them: milliseconds since 1970 plus a priority.
NOON = 1_800_000_000_000
#: Longest a test waits for what must come; a broken transport fails it, a slow machine does not.
PATIENCE_MS = 20_000


def make_ticket(score: int = NOON, *, job_id: UUID | None = None, **fields: Any) -> Ticket:
    """Return a ticket of a new job, or of the given one."""
    values: dict[str, Any] = {
        "job_type": JOB_TYPE,
        "queue_name": QUEUE,
        "delivery_no": 1,
        "created_at_ms": NOON,
    }
    return Ticket(job_id=job_id or uuid4(), deliver_score=score, **(values | fields))


def again(ticket: Ticket, delivery_no: int, score: int | None = None) -> Ticket:
    """Return another delivery of the ticket's job."""
    return make_ticket(
        ticket.deliver_score if score is None else score,
        job_id=ticket.job_id,
        delivery_no=delivery_no,
    )


class Conversation:
    """The short words the tests below speak in."""

    def put(self, transport: Transport, *tickets: Ticket) -> list[PutResult | TicketRefused]:
        """Put the tickets in one batch."""
        return transport.put_many(tickets)

    def claim(
        self, transport: Transport, limit: int = 10, queue: str = QUEUE, worker: str = WORKER
    ) -> list[Delivery]:
        """Claim with the usual lease."""
        return transport.claim(queue, limit, worker, LEASE_MS)

    def await_claim(
        self, transport: Transport, limit: int = 10, wait_ms: int = PATIENCE_MS, stopped: Stopped = never
    ) -> list[Delivery]:
        """Claim with the usual lease, waiting for what comes."""
        return transport.claim(QUEUE, limit, WORKER, LEASE_MS, wait_ms=wait_ms, stopped=stopped)

    def claim_one(self, transport: Transport) -> Delivery:
        """Claim the only ticket."""
        [delivery] = self.claim(transport)
        return delivery

    def beat(self, transport: Transport, *deliveries: Delivery) -> HeartbeatReport:
        """Send a heartbeat."""
        return transport.heartbeat(WORKER, deliveries, LEASE_MS)

    def finish(self, transport: Transport, *deliveries: Delivery) -> list[bool]:
        """Settle as finished."""
        return transport.finish_many(WORKER, [(d, Settlement.FINISHED) for d in deliveries])

    def is_alive(self, transport: Transport, ticket: Ticket) -> bool:
        """Ask for one ticket."""
        [answer] = transport.alive([(ticket.queue_name, ticket.job_type, ticket.job_id)])
        return answer

    def cancel(self, transport: Transport, ticket: Ticket) -> None:
        """Cancel the ticket's job."""
        transport.cancel(ticket.queue_name, ticket.job_type, ticket.job_id)

    def drain(self, transport: Transport) -> list[Ticket]:
        """Claim and settle everything, in the order it comes."""
        came: list[Ticket] = []
        while deliveries := self.claim(transport, MAX_CLAIM):
            came += [delivery.ticket for delivery in deliveries]
            self.finish(transport, *deliveries)
        return came


class Promises(Conversation):
    """A chapter of the suite: what it is run on."""

    @pytest.fixture
    def transport(self) -> SteerableTransport:
        """The transport under test, fresh and empty; a subclass must supply it."""
        raise NotImplementedError("supply a fixture `transport`")

    @pytest.fixture
    def peer(self, transport: SteerableTransport) -> Transport:
        """Another client of the same broker."""
        return transport
