"""Sleeping until there is something to do."""

from __future__ import annotations

import itertools
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

from outbox.transports.base import (
    Settlement,
    SteerableTransport,
    Transport,
)
from outbox.transports.conformance.words import (
    NOON,
    OTHER_QUEUE,
    PATIENCE_MS,
    QUEUE,
    WORKER,
    Promises,
    make_ticket,
)


class WaitPromises(Promises):
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

    def test_a_stop_ends_a_wait_and_takes_nothing_with_it(
        self, transport: SteerableTransport
    ) -> None:
        stop = threading.Event()
        with ThreadPoolExecutor(2) as threads:
            queue = threads.submit(transport.wait, QUEUE, PATIENCE_MS, stop.is_set)
            hint = threads.submit(transport.wait_wake, ["dispatcher"], PATIENCE_MS, stop.is_set)
            # The waits are under way, or begin after the stop: they end at once either way.
            began = time.monotonic()
            stop.set()

            assert (queue.result(), hint.result()) == (False, None)
        assert time.monotonic() - began < PATIENCE_MS / 1000 / 4
        self.put(transport, make_ticket())
        transport.wake("dispatcher")
        assert transport.wait(QUEUE, PATIENCE_MS) is True
        assert transport.wait_wake(["dispatcher"], PATIENCE_MS) == "dispatcher"

    def test_who_listens_hears_of_settled_and_cancelled_jobs(
        self, transport: SteerableTransport, peer: Transport
    ) -> None:
        ended, cancelled = make_ticket(), make_ticket()
        self.put(transport, ended)
        with closing(peer.listen()) as early:
            transport.finish_many(WORKER, [(self.claim_one(transport), Settlement.FINISHED)])
            with closing(peer.listen()) as late:
                transport.cancel(cancelled.queue_name, cancelled.job_type, cancelled.job_id)

                assert late.wait(PATIENCE_MS) == {cancelled.job_id}
                assert late.wait(1) == frozenset()
            heard = early.wait(PATIENCE_MS)
            while len(heard) < 2:
                heard |= early.wait(PATIENCE_MS)
            assert heard == {ended.job_id, cancelled.job_id}

    def test_a_stop_ends_listening(self, transport: SteerableTransport) -> None:
        began = time.monotonic()
        with closing(transport.listen()) as listener:
            assert listener.wait(PATIENCE_MS, lambda: True) == frozenset()
        assert time.monotonic() - began < PATIENCE_MS / 1000 / 4

    def test_many_hints_make_one_token(self, transport: SteerableTransport) -> None:
        for _ in range(5):
            transport.wake("dispatcher")

        assert transport.wait_wake(["other"], 1) is None
        assert [transport.wait_wake(["dispatcher"], 1) for _ in range(2)] == ["dispatcher", None]

    def test_of_several_channels_each_token_is_taken_once(self, transport: SteerableTransport) -> None:
        for channel in ("c", "a"):
            transport.wake(channel)

        assert [transport.wait_wake(["a", "b", "c"], 1) for _ in range(3)] == ["a", "c", None]

    def test_a_hint_wakes_a_sleeper(self, transport: SteerableTransport, peer: Transport) -> None:
        with ThreadPoolExecutor(1) as thread:
            sleeper = thread.submit(peer.wait_wake, ["other", "dispatcher"], PATIENCE_MS)
            transport.wake("dispatcher")

            assert sleeper.result() == "dispatcher"

    def test_a_claim_that_waits_takes_at_once_what_is_there(self, transport: SteerableTransport) -> None:
        tickets = [make_ticket(NOON + i) for i in range(3)]
        self.put(transport, *tickets)

        assert [d.ticket for d in self.await_claim(transport, limit=2)] == tickets[:2]

    def test_a_claim_that_waits_takes_what_comes(self, transport: SteerableTransport, peer: Transport) -> None:
        ticket = make_ticket()
        with ThreadPoolExecutor(1) as thread:
            waiting = thread.submit(self.await_claim, transport)
            self.put(peer, make_ticket(queue_name=OTHER_QUEUE), ticket)

            [delivery] = waiting.result()
        assert (delivery.ticket, delivery.handout) == (ticket, 1)
        assert self.finish(transport, delivery) == [True]

    def test_a_claim_that_waits_gives_up_when_its_time_is_over(self, transport: SteerableTransport) -> None:
        self.put(transport, make_ticket(queue_name=OTHER_QUEUE))

        assert [self.await_claim(transport, wait_ms=ms) for ms in (0, 1, 40)] == [[], [], []]
        assert self.await_claim(transport, limit=0) == []

    def test_a_ticket_goes_to_one_of_those_whose_claims_wait(
        self, transport: SteerableTransport, peer: Transport
    ) -> None:
        tickets = [make_ticket(NOON + i) for i in range(4)]
        with ThreadPoolExecutor(4) as threads:
            clients = [transport, peer, transport, peer]
            waiting = [threads.submit(self.await_claim, client, 1) for client in clients]
            for ticket in tickets:
                self.put(peer, ticket)

            taken = [delivery.ticket for future in waiting for delivery in future.result()]
        assert sorted(taken, key=lambda ticket: ticket.deliver_score) == tickets

    def test_a_stop_ends_a_claim_that_waits_and_takes_nothing_with_it(
        self, transport: SteerableTransport, peer: Transport
    ) -> None:
        """What comes in the very moment of the stop is answered, or there for others; nobody has to miss it first."""
        ticket, asked = make_ticket(), itertools.count()

        def stopped() -> bool:
            number = next(asked)
            if number == 1:
                # The wait has begun, and is about to be given up.
                self.put(peer, ticket)
            return number > 0

        answered = self.await_claim(transport, stopped=stopped)

        assert [delivery.ticket for delivery in answered or self.claim(peer)] == [ticket]
