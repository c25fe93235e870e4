"""Handing out, leases, fencing."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

from outbox.transports.base import (
    MAX_CLAIM,
    Delivery,
    HeartbeatReport,
    SteerableTransport,
    Transport,
)
from outbox.transports.conformance.words import (
    LEASE_MS,
    NOON,
    OTHER_QUEUE,
    QUEUE,
    WORKER,
    Promises,
    again,
    make_ticket,
)


class ClaimPromises(Promises):
    """Handing out, leases, fencing."""

    def test_a_claim_takes_no_more_than_asked(self, transport: SteerableTransport) -> None:
        self.put(transport, *(make_ticket(NOON + i) for i in range(100)))

        counts = [len(self.claim(transport, limit)) for limit in (3, 0, -1, 1_000)]

        assert counts == [3, 0, 0, MAX_CLAIM]
        assert transport.depth([QUEUE]) == {QUEUE: 100 - 3 - MAX_CLAIM}

    def test_no_ticket_is_handed_out_twice(
        self, transport: SteerableTransport, peer: Transport
    ) -> None:
        tickets = [make_ticket(NOON + i) for i in range(120)]
        self.put(transport, *tickets)

        def take_all(client: Transport) -> list[Delivery]:
            taken: list[Delivery] = []
            while deliveries := client.claim(QUEUE, 5, WORKER, LEASE_MS):
                taken += deliveries
            return taken

        with ThreadPoolExecutor(4) as threads:
            hands = list(threads.map(take_all, [transport, peer] * 2))

        deliveries = [delivery for hand in hands for delivery in hand]
        assert sorted(d.ticket.deliver_score for d in deliveries) == [
            t.deliver_score for t in tickets
        ]
        assert len({d.execution_id for d in deliveries}) == 120

    def test_an_ended_lease_brings_the_ticket_back_to_its_place(
        self, transport: SteerableTransport
    ) -> None:
        tickets = [make_ticket(NOON + i) for i in range(3)]
        self.put(transport, *tickets)
        self.claim(transport, 2)

        transport.advance(LEASE_MS)

        assert transport.recover(QUEUE) == 2
        assert transport.recover(QUEUE) == 0
        assert self.drain(transport) == tickets

    def test_a_live_lease_is_left_alone(self, transport: SteerableTransport) -> None:
        self.put(transport, make_ticket())
        delivery = self.claim_one(transport)

        transport.advance(LEASE_MS - 1_000)

        assert transport.recover(QUEUE) == 0
        assert self.finish(transport, delivery) == [True]

    def test_heartbeats_keep_a_lease(self, transport: SteerableTransport) -> None:
        self.put(transport, make_ticket())
        delivery = self.claim_one(transport)

        for _ in range(3):
            transport.advance(LEASE_MS - 1_000)
            assert self.beat(transport, delivery) == HeartbeatReport()

        assert transport.recover(QUEUE) == 0

    def test_a_late_worker_is_fenced_after_take_over(self, transport: SteerableTransport) -> None:
        self.put(transport, make_ticket())
        late = self.claim_one(transport)
        transport.advance(LEASE_MS)
        transport.recover(QUEUE)
        owner = self.claim_one(transport)

        assert self.beat(transport, late, owner) == HeartbeatReport(
            lost=frozenset({late.execution_id})
        )
        assert transport.defer_many([(late, 0)]) == [False]
        assert self.finish(transport, late, owner) == [False, True]

    def test_hand_outs_of_one_delivery_are_counted(self, transport: SteerableTransport) -> None:
        ticket = make_ticket()
        self.put(transport, ticket)
        counts = []
        for _ in range(3):
            counts.append(self.claim_one(transport).handout)
            transport.advance(LEASE_MS)
            transport.recover(QUEUE)

        self.put(transport, again(ticket, 2))

        assert [*counts, self.claim_one(transport).handout] == [1, 2, 3, 1]

    def test_recovery_is_bounded(self, transport: SteerableTransport) -> None:
        self.put(transport, *(make_ticket(NOON + i) for i in range(70)))
        self.claim(transport, MAX_CLAIM)
        self.claim(transport, MAX_CLAIM)
        transport.advance(LEASE_MS)

        assert [transport.recover(QUEUE, 60), transport.recover(QUEUE, 60)] == [60, 10]

    def test_a_ticket_is_settled_once(self, transport: SteerableTransport) -> None:
        ticket = make_ticket()
        self.put(transport, ticket)
        delivery = self.claim_one(transport)

        assert self.finish(transport, delivery, delivery) == [True, False]
        assert self.beat(transport, delivery).lost == {delivery.execution_id}

    def test_answers_of_a_large_settlement_keep_their_order(
        self, transport: SteerableTransport
    ) -> None:
        queues = [QUEUE, OTHER_QUEUE]
        self.put(transport, *(make_ticket(NOON + i, queue_name=queues[i % 2]) for i in range(100)))
        held = [d for queue in queues for d in self.claim(transport, MAX_CLAIM, queue)]
        random.Random(3).shuffle(held)  # noqa: S311
        gone = held[::3]
        self.finish(transport, *gone)

        answers = self.finish(transport, *held)

        assert answers == [delivery not in gone for delivery in held]

    def test_a_heartbeat_covers_hundreds_of_executions_of_several_queues(
        self, transport: SteerableTransport
    ) -> None:
        held: list[Delivery] = []
        for queue in (QUEUE, OTHER_QUEUE):
            self.put(transport, *(make_ticket(NOON + i, queue_name=queue) for i in range(230)))
            while deliveries := self.claim(transport, MAX_CLAIM, queue):
                held += deliveries
        self.finish(transport, held[0], held[-1])

        report = self.beat(transport, *held)

        assert report.lost == {held[0].execution_id, held[-1].execution_id}
        assert len(held) == 460
