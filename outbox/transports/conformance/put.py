"""Queueing, order, delivery numbers."""

from __future__ import annotations

import random

import pytest

from outbox.errors import TicketRefused
from outbox.transports.base import (
    MAX_IDLE_PUT,
    HeartbeatReport,
    PutResult,
    Settlement,
    SteerableTransport,
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


class PutPromises(Promises):
    """Queueing, order, delivery numbers."""

    def test_a_claim_hands_out_what_was_put(self, transport: SteerableTransport) -> None:
        ticket = make_ticket(traceparent=f"00-{'a1' * 16}-{'b2' * 8}-01")

        assert self.put(transport, ticket) == [PutResult.NEW]

        assert self.claim_one(transport).ticket == ticket

    def test_putting_the_same_delivery_again_is_a_no_op(
        self, transport: SteerableTransport
    ) -> None:
        ticket = make_ticket()

        answers = [self.put(transport, ticket, ticket), self.put(transport, ticket)]

        assert answers == [[PutResult.NEW, PutResult.DUPLICATE], [PutResult.DUPLICATE]]
        assert self.drain(transport) == [ticket]

    def test_an_old_delivery_is_a_no_op(self, transport: SteerableTransport) -> None:
        ticket = make_ticket(delivery_no=3)
        self.put(transport, ticket)

        assert self.put(transport, again(ticket, 2)) == [PutResult.DUPLICATE]
        assert self.drain(transport) == [ticket]

    def test_putting_an_executing_delivery_again_changes_nothing(
        self, transport: SteerableTransport
    ) -> None:
        ticket = make_ticket()
        self.put(transport, ticket)
        delivery = self.claim_one(transport)

        assert self.put(transport, ticket) == [PutResult.DUPLICATE]

        assert transport.depth([QUEUE]) == {QUEUE: 0}
        assert self.finish(transport, delivery) == [True]

    def test_a_put_for_an_idle_queue_leaves_out_what_others_are_waiting_before(
        self, transport: SteerableTransport
    ) -> None:
        waiting, late = make_ticket(), make_ticket()
        elsewhere = make_ticket(queue_name=OTHER_QUEUE)
        first, second = make_ticket(), make_ticket()

        assert transport.put_many([first, second], if_idle=True) == [PutResult.NEW, PutResult.NEW]
        assert self.drain(transport) == [first, second]
        self.put(transport, waiting)
        answers = transport.put_many([late, elsewhere], if_idle=True)

        assert answers == [PutResult.BUSY, PutResult.NEW]
        assert self.drain(transport) == [waiting]

    def test_a_put_for_an_idle_queue_takes_as_many_as_it_may_whole(self, transport: SteerableTransport) -> None:
        tickets = [make_ticket() for _ in range(MAX_IDLE_PUT)]

        assert transport.put_many(tickets, if_idle=True) == [PutResult.NEW] * MAX_IDLE_PUT

        assert self.drain(transport) == tickets
        self.put(transport, make_ticket())
        late = [make_ticket() for _ in range(MAX_IDLE_PUT)]
        assert transport.put_many(late, if_idle=True) == [PutResult.BUSY] * MAX_IDLE_PUT

    def test_a_put_for_an_idle_queue_knows_what_is_executing(self, transport: SteerableTransport) -> None:
        ticket = make_ticket()
        self.put(transport, ticket)
        delivery = self.claim_one(transport)

        assert transport.put_many([ticket], if_idle=True) == [PutResult.DUPLICATE]

        assert self.finish(transport, delivery) == [True]

    def test_a_higher_delivery_replaces_a_waiting_one(self, transport: SteerableTransport) -> None:
        ticket = make_ticket()
        newer = again(ticket, 2)
        self.put(transport, ticket)

        assert self.put(transport, newer) == [PutResult.NEWER]
        assert self.drain(transport) == [newer]

    def test_a_higher_delivery_ends_the_old_execution(self, transport: SteerableTransport) -> None:
        ticket = make_ticket()
        newer = again(ticket, 2)
        self.put(transport, ticket)
        old = self.claim_one(transport)

        assert self.put(transport, newer) == [PutResult.NEWER]

        assert self.beat(transport, old).lost == {old.execution_id}
        assert transport.defer_many([(old, 0)]) == [False]
        assert self.finish(transport, old) == [False]
        assert self.drain(transport) == [newer]

    def test_a_higher_delivery_replaces_a_deferred_one(self, transport: SteerableTransport) -> None:
        ticket = make_ticket()
        newer = again(ticket, 2)
        self.put(transport, ticket)
        transport.defer_many([(self.claim_one(transport), 1_000)])

        assert self.put(transport, newer) == [PutResult.NEWER]

        assert self.drain(transport) == [newer]
        transport.advance(1_000)
        assert transport.recover(QUEUE) == 0

    @pytest.mark.parametrize("settlement", list(Settlement))
    def test_a_settled_ticket_never_hinders_the_next_delivery(
        self, transport: SteerableTransport, settlement: Settlement
    ) -> None:
        ticket = make_ticket()
        newer = again(ticket, 2)
        self.put(transport, ticket)
        transport.finish_many(WORKER, [(self.claim_one(transport), settlement)])

        assert self.put(transport, newer) in ([PutResult.NEW], [PutResult.NEWER])
        assert self.drain(transport) == [newer]

    def test_a_redelivery_takes_the_place_of_its_new_score(
        self, transport: SteerableTransport
    ) -> None:
        first, second = make_ticket(NOON), make_ticket(NOON + 10)
        late = again(first, 2, NOON + 20)
        self.put(transport, first, second)

        self.put(transport, late)

        assert self.drain(transport) == [second, late]

    def test_lower_scores_leave_first_and_equal_ones_in_the_order_they_came(
        self, transport: SteerableTransport
    ) -> None:
        dice = random.Random(7)  # noqa: S311
        tickets = [make_ticket(NOON + dice.randrange(40)) for _ in range(150)]
        for start in range(0, 150, 7):
            self.put(transport, *tickets[start : start + 7])

        assert self.drain(transport) == sorted(tickets, key=lambda t: t.deliver_score)

    def test_scores_of_a_strict_order_keep_every_digit(self, transport: SteerableTransport) -> None:
        high = 100 * 2**42 + NOON
        tickets = [make_ticket(high + offset) for offset in (2, 0, 1)]
        self.put(transport, *tickets)

        came = [ticket.deliver_score for ticket in self.drain(transport)]

        assert came == [high, high + 1, high + 2]

    def test_answers_come_in_the_order_of_the_batch(self, transport: SteerableTransport) -> None:
        known = [make_ticket(queue_name=queue) for queue in (QUEUE, OTHER_QUEUE)]
        self.put(transport, *known)
        batch = [known[0], make_ticket(), known[1], make_ticket(queue_name=OTHER_QUEUE)]

        answers = self.put(transport, *batch)

        assert answers == [PutResult.DUPLICATE, PutResult.NEW] * 2

    def test_a_large_batch_is_put_whole(self, transport: SteerableTransport) -> None:
        tickets = [make_ticket(NOON + i) for i in range(250)]

        assert self.put(transport, *tickets) == [PutResult.NEW] * 250
        assert self.drain(transport) == tickets

    def test_a_refused_ticket_does_not_hinder_the_others(
        self, transport: SteerableTransport
    ) -> None:
        good = [make_ticket(NOON + i) for i in range(2)]
        bad = [
            make_ticket(job_type="Not A Type"),
            make_ticket(queue_name="no:colon"),
            make_ticket(delivery_no=0),
            make_ticket(2**53),
        ]

        answers = self.put(transport, good[0], *bad, good[1])

        assert answers[0] == answers[-1] == PutResult.NEW
        assert all(isinstance(answer, TicketRefused) for answer in answers[1:-1])
        assert self.drain(transport) == good

    def test_queues_do_not_mix(self, transport: SteerableTransport) -> None:
        here, there = make_ticket(), make_ticket(queue_name=OTHER_QUEUE)
        self.put(transport, here, there)

        assert transport.depth([QUEUE, OTHER_QUEUE, "empty"]) == {
            QUEUE: 1,
            OTHER_QUEUE: 1,
            "empty": 0,
        }
        assert [d.ticket for d in self.claim(transport, queue=OTHER_QUEUE)] == [there]

    def test_empty_batches_do_nothing(self, transport: SteerableTransport) -> None:
        assert transport.put_many([]) == []
        assert transport.depth([]) == {}
        assert transport.alive([]) == []
        assert transport.finish_many(WORKER, []) == []
        assert transport.defer_many([]) == []
        assert transport.heartbeat(WORKER, [], LEASE_MS) == HeartbeatReport()
