"""Many threads, one transport."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

from outbox.transports.base import (
    PutResult,
    SteerableTransport,
    Ticket,
    Transport,
)
from outbox.transports.conformance.words import (
    NOON,
    PATIENCE_MS,
    QUEUE,
    Promises,
    make_ticket,
)


class ConcurrencyPromises(Promises):
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
