"""A lease is the database's: what Redis does costs nobody a lease."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import datetime

from outbox.transports.base import Delivery, HeartbeatReport
from outbox.transports.memory import MemoryTransport
from registry.queues import QueueSpec
from tests.crash.samples import ASKED, teach
from tests.support.provider import Silence
from tests.support.wait import eventually
from tests.support.world import QUEUE, World


class DeafTransport(MemoryTransport):
    """Heartbeats are never answered, as by a Redis behind a dropped wire."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = threading.Event()
        self.let_go = threading.Event()

    def heartbeat(self, worker: str, deliveries: Sequence[Delivery], lease_ms: int) -> HeartbeatReport:
        if deliveries:
            self.asked.set()
            self.let_go.wait()
        return super().heartbeat(worker, deliveries, lease_ms)


def test_lease_is_renewed_before_a_silent_redis_is_waited_for(make_world: Callable[..., World]) -> None:
    transport = DeafTransport()
    queue = QueueSpec(QUEUE, lease_ms=60_000, heartbeat_ms=50)
    world = teach(make_world(transport, queues=(queue,)))
    silence = Silence()
    world.provider.say(silence)
    job = world.create(job_type=ASKED, payload={})
    world.dispatch()

    def lock_until() -> datetime | None:
        return world.job(job.id).lock_until

    try:
        with world.working():
            assert silence.asked.wait(20)
            claimed = world.claims(job.id)[0].started_at
            assert transport.asked.wait(20), "the transport was told as well"

            renewed = eventually(lock_until)
            assert (renewed - claimed).total_seconds() > 60
            transport.let_go.set()
    finally:
        transport.let_go.set()
