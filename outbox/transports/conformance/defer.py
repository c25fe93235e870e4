"""Giving back for later."""

from __future__ import annotations

from outbox.transports.base import (
    PutResult,
    SteerableTransport,
)
from outbox.transports.conformance.words import (
    NOON,
    QUEUE,
    Promises,
    make_ticket,
)


class DeferPromises(Promises):
    """Giving back for later."""

    def test_a_deferred_delivery_comes_again_when_it_is_due(
        self, transport: SteerableTransport
    ) -> None:
        ticket = make_ticket()
        self.put(transport, ticket)

        assert transport.defer_many([(self.claim_one(transport), 5_000)]) == [True]

        transport.advance(4_000)
        assert transport.recover(QUEUE) == 0
        assert self.claim(transport) == []
        transport.advance(1_000)
        assert transport.recover(QUEUE) == 1
        assert self.claim_one(transport).ticket == ticket

    def test_a_deferred_delivery_comes_back_to_its_place(
        self, transport: SteerableTransport
    ) -> None:
        tickets = [make_ticket(NOON + i) for i in range(3)]
        self.put(transport, *tickets)
        transport.defer_many([(d, 1_000) for d in self.claim(transport, 2)])
        transport.advance(1_000)

        assert transport.recover(QUEUE) == 2
        assert self.drain(transport) == tickets

    def test_no_delay_gives_the_ticket_back_at_once(self, transport: SteerableTransport) -> None:
        ticket = make_ticket()
        self.put(transport, ticket)

        assert transport.defer_many([(self.claim_one(transport), 0)]) == [True]
        assert self.drain(transport) == [ticket]

    def test_putting_a_deferred_delivery_again_is_a_no_op(
        self, transport: SteerableTransport
    ) -> None:
        ticket = make_ticket()
        self.put(transport, ticket)
        transport.defer_many([(self.claim_one(transport), 5_000)])

        assert self.put(transport, ticket) == [PutResult.DUPLICATE]
        assert self.claim(transport) == []

    def test_a_deferred_execution_is_over(self, transport: SteerableTransport) -> None:
        self.put(transport, make_ticket())
        delivery = self.claim_one(transport)
        transport.defer_many([(delivery, 5_000)])

        assert transport.defer_many([(delivery, 5_000)]) == [False]
        assert self.beat(transport, delivery).lost == {delivery.execution_id}
        assert self.finish(transport, delivery) == [False]
