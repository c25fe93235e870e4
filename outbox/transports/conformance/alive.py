"""What upkeep asks before it redelivers, and cancelling."""

from __future__ import annotations

from outbox.transports.base import (
    HeartbeatReport,
    PutResult,
    SteerableTransport,
)
from outbox.transports.conformance.words import (
    LEASE_MS,
    NOON,
    QUEUE,
    Promises,
    make_ticket,
)


class AlivePromises(Promises):
    """What upkeep asks before it redelivers, and cancelling."""

    def test_a_ticket_is_alive_until_it_is_settled(self, transport: SteerableTransport) -> None:
        ticket = make_ticket()
        seen = [self.is_alive(transport, ticket)]
        self.put(transport, ticket)
        seen.append(self.is_alive(transport, ticket))  # waiting
        delivery = self.claim_one(transport)
        seen.append(self.is_alive(transport, ticket))  # executing
        transport.defer_many([(delivery, 1_000)])
        seen.append(self.is_alive(transport, ticket))  # deferred
        transport.advance(1_000)
        transport.recover(QUEUE)
        delivery = self.claim_one(transport)
        transport.advance(LEASE_MS)
        seen.append(self.is_alive(transport, ticket))  # ended, and recovery will bring it back
        self.finish(transport, delivery)
        seen.append(self.is_alive(transport, ticket))

        assert seen == [False, True, True, True, True, False]

    def test_answers_about_many_tickets_keep_their_order(
        self, transport: SteerableTransport
    ) -> None:
        tickets = [make_ticket(NOON + i) for i in range(130)]
        self.put(transport, *tickets[::2])

        answers = transport.alive([(t.queue_name, t.job_type, t.job_id) for t in tickets])

        assert answers == [i % 2 == 0 for i in range(130)]

    def test_cancel_drops_a_waiting_ticket(self, transport: SteerableTransport) -> None:
        gone, stays = make_ticket(), make_ticket(NOON + 1)
        self.put(transport, gone, stays)

        self.cancel(transport, gone)

        assert transport.depth([QUEUE]) == {QUEUE: 1}
        assert not self.is_alive(transport, gone)
        assert self.drain(transport) == [stays]

    def test_cancel_drops_a_deferred_ticket(self, transport: SteerableTransport) -> None:
        ticket = make_ticket()
        self.put(transport, ticket)
        transport.defer_many([(self.claim_one(transport), 1_000)])

        self.cancel(transport, ticket)

        transport.advance(1_000)
        assert transport.recover(QUEUE) == 0
        assert not self.is_alive(transport, ticket)

    def test_cancel_tells_the_worker_and_leaves_it_the_execution(
        self, transport: SteerableTransport
    ) -> None:
        tickets = [make_ticket(NOON + i) for i in range(3)]
        self.put(transport, *tickets)
        held = self.claim(transport)

        self.cancel(transport, tickets[1])

        assert self.beat(transport, *held) == HeartbeatReport(
            cancelled=frozenset({held[1].execution_id})
        )
        assert self.finish(transport, *held) == [True] * 3

    def test_a_cancel_hint_waits_for_a_ticket_that_comes_later(
        self, transport: SteerableTransport
    ) -> None:
        ticket = make_ticket()

        self.cancel(transport, ticket)

        assert self.put(transport, ticket) == [PutResult.NEW]
        delivery = self.claim_one(transport)
        assert self.beat(transport, delivery).cancelled == {delivery.execution_id}
