"""The transport's promises as a test suite, for the transports here and for yours.

    from outbox.transports.conformance import TransportConformance

    class TestMyTransport(TransportConformance):
        @pytest.fixture
        def transport(self) -> Iterator[SteerableTransport]:
            yield MyTransport(...)        # fresh and empty, with ``advance(ms)`` for its clock

        @pytest.fixture
        def peer(self, transport):        # another client of the same broker; default: the same one
            return MyTransport(...)

Needs pytest alone. For readable failures, ask pytest to rewrite this module's assertions:
``pytest.register_assert_rewrite("outbox.transports.conformance")`` in a ``conftest.py``.
"""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID, uuid4

import pytest

from outbox.errors import TicketRefused
from outbox.transports.base import (
    MAX_CLAIM,
    PRESENCE_MS,
    Delivery,
    HeartbeatReport,
    PutResult,
    Settlement,
    SteerableTransport,
    Ticket,
    Transport,
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

    @pytest.fixture
    def transport(self) -> SteerableTransport:
        """The transport under test, fresh and empty; a subclass must supply it."""
        raise NotImplementedError("supply a fixture `transport`")

    @pytest.fixture
    def peer(self, transport: SteerableTransport) -> Transport:
        """Another client of the same broker."""
        return transport

    def put(self, transport: Transport, *tickets: Ticket) -> list[PutResult | TicketRefused]:
        """Put the tickets in one batch."""
        return transport.put_many(tickets)

    def claim(
        self, transport: Transport, limit: int = 10, queue: str = QUEUE, worker: str = WORKER
    ) -> list[Delivery]:
        """Claim with the usual lease."""
        return transport.claim(queue, limit, worker, LEASE_MS)

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


class PutPromises(Conversation):
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


class ClaimPromises(Conversation):
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


class DeferPromises(Conversation):
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


class AlivePromises(Conversation):
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


class WaitPromises(Conversation):
    """Sleeping until there is something to do."""

    def test_wait_consumes_nothing(self, transport: SteerableTransport) -> None:
        tickets = [make_ticket(NOON + i) for i in range(3)]
        self.put(transport, *tickets)

        assert [transport.wait(QUEUE, PATIENCE_MS) for _ in range(3)] == [True] * 3
        assert self.drain(transport) == tickets

    def test_wait_gives_up_when_its_time_is_over(self, transport: SteerableTransport) -> None:
        self.put(transport, make_ticket(queue_name=OTHER_QUEUE))

        assert [transport.wait(QUEUE, ms) for ms in (0, 1, 40)] == [False] * 3

    def test_everyone_who_waits_wakes_up(
        self, transport: SteerableTransport, peer: Transport
    ) -> None:
        clients = [transport, peer, transport, peer]
        with ThreadPoolExecutor(len(clients)) as threads:
            waiting = [threads.submit(client.wait, QUEUE, PATIENCE_MS) for client in clients]
            self.put(transport, make_ticket())

            assert [future.result() for future in waiting] == [True] * len(clients)

    def test_a_due_ticket_wakes_its_queue(
        self, transport: SteerableTransport, peer: Transport
    ) -> None:
        self.put(transport, make_ticket())
        transport.defer_many([(self.claim_one(transport), 1_000)])
        transport.advance(1_000)
        with ThreadPoolExecutor(1) as thread:
            waiting = thread.submit(peer.wait, QUEUE, PATIENCE_MS)
            transport.recover(QUEUE)

            assert waiting.result() is True

    def test_many_hints_make_one_token(self, transport: SteerableTransport) -> None:
        for _ in range(5):
            transport.wake("dispatcher")

        assert transport.wait_wake("other", 1) is False
        assert [transport.wait_wake("dispatcher", 1) for _ in range(2)] == [True, False]

    def test_a_hint_wakes_a_sleeper(self, transport: SteerableTransport, peer: Transport) -> None:
        with ThreadPoolExecutor(1) as thread:
            sleeper = thread.submit(peer.wait_wake, "dispatcher", PATIENCE_MS)
            transport.wake("dispatcher")

            assert sleeper.result() is True


class PresencePromises(Conversation):
    """Who is there."""

    def names(self, transport: Transport) -> list[str]:
        """Return the names of the living workers."""
        return [worker.name for worker in transport.workers()]

    def test_a_registered_worker_is_listed_with_its_queues(
        self, transport: SteerableTransport
    ) -> None:
        transport.register_worker("b", [QUEUE])
        transport.register_worker("a", [QUEUE, OTHER_QUEUE])
        transport.advance(2_000)

        workers = transport.workers()

        assert [(w.name, w.queues) for w in workers] == [
            ("a", (QUEUE, OTHER_QUEUE)),
            ("b", (QUEUE,)),
        ]
        assert all(w.hostname and w.pid for w in workers)
        assert all(2_000 <= w.silent_ms <= w.up_ms < PRESENCE_MS for w in workers)

    def test_a_worker_shows_how_much_it_executes(self, transport: SteerableTransport) -> None:
        transport.register_worker(WORKER, [QUEUE])
        self.put(transport, *(make_ticket(NOON + i) for i in range(3)))
        held = self.claim(transport)
        self.finish(transport, held[0])

        self.beat(transport, *held[1:])

        assert [worker.executing for worker in transport.workers()] == [2]

    def test_a_silent_worker_is_no_longer_listed(self, transport: SteerableTransport) -> None:
        transport.register_worker("silent", [QUEUE])
        transport.register_worker(WORKER, [QUEUE])

        transport.advance(PRESENCE_MS - 5_000)
        self.beat(transport)
        transport.advance(5_000)

        assert self.names(transport) == [WORKER]

    def test_an_unregistered_worker_is_gone(self, transport: SteerableTransport) -> None:
        transport.register_worker(WORKER, [QUEUE])
        transport.unregister_worker(WORKER)
        transport.unregister_worker("never-seen")

        self.beat(transport)

        assert self.names(transport) == []

    def test_a_sound_broker_has_no_problems(self, transport: SteerableTransport) -> None:
        assert transport.check() == []


class ConcurrencyPromises(Conversation):
    """Many threads, one transport."""

    def test_one_client_serves_many_threads(
        self, transport: SteerableTransport, peer: Transport
    ) -> None:
        seen: list[Ticket] = []
        lock = threading.Lock()
        batches = [[make_ticket(NOON + i) for i in range(n, n + 10)] for n in range(0, 80, 10)]
        everything = [ticket for batch in batches for ticket in batch]
        deadline = time.monotonic() + PATIENCE_MS / 1000

        def work(client: Transport) -> None:
            while len(seen) < len(everything) and time.monotonic() < deadline:
                client.wait(QUEUE, 50)
                deliveries = self.claim(client, 7)
                settled = self.finish(client, *deliveries)
                with lock:
                    seen.extend(d.ticket for d, ok in zip(deliveries, settled, strict=True) if ok)

        with ThreadPoolExecutor(8) as threads:
            working = [threads.submit(work, client) for client in [transport, peer] * 2]
            putting = [threads.submit(transport.put_many, batch) for batch in batches]
            answers = [answer for put in putting for answer in put.result()]
            for worker in working:
                worker.result()

        assert answers == [PutResult.NEW] * len(everything)
        assert sorted(seen, key=lambda t: t.deliver_score) == everything


class TransportConformance(
    PutPromises,
    ClaimPromises,
    DeferPromises,
    AlivePromises,
    WaitPromises,
    PresencePromises,
    ConcurrencyPromises,
):
    """All promises; subclass it, name the class ``Test...`` and supply the fixture ``transport``."""
