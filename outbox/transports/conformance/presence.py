"""Who is there."""

from __future__ import annotations

from outbox.transports.base import (
    PRESENCE_MS,
    SteerableTransport,
    Transport,
)
from outbox.transports.conformance.words import (
    NOON,
    OTHER_QUEUE,
    QUEUE,
    WORKER,
    Promises,
    make_ticket,
)


class PresencePromises(Promises):
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

    def test_a_dispatcher_is_listed_apart_from_the_workers(self, transport: SteerableTransport) -> None:
        transport.register_worker(WORKER, [QUEUE])
        transport.register_dispatcher("d")
        transport.advance(2_000)

        [dispatcher] = transport.dispatchers()

        assert (dispatcher.name, dispatcher.queues, dispatcher.executing) == ("d", (), 0)
        assert 2_000 <= dispatcher.silent_ms <= dispatcher.up_ms < PRESENCE_MS
        assert self.names(transport) == [WORKER]

    def test_a_dispatcher_that_beats_stays_listed_and_a_silent_one_does_not(
        self, transport: SteerableTransport
    ) -> None:
        transport.register_dispatcher("silent")
        transport.register_dispatcher("d")

        transport.advance(PRESENCE_MS - 5_000)
        transport.heartbeat("d", [], 0)
        transport.advance(5_000)

        assert [one.name for one in transport.dispatchers()] == ["d"]

    def test_an_unregistered_dispatcher_is_gone(self, transport: SteerableTransport) -> None:
        transport.register_dispatcher("d")
        transport.unregister_worker("d")

        transport.heartbeat("d", [], 0)

        assert transport.dispatchers() == []

    def test_a_sound_broker_has_no_problems(self, transport: SteerableTransport) -> None:
        assert transport.check() == []
