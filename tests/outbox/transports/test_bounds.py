"""What the transport costs Redis: round trips, commands, memory, slots."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from typing import Any

import pytest
import redis
from redis.connection import AbstractConnection

from outbox.transports.base import Delivery, Settlement, Ticket
from outbox.transports.conformance.words import (
    LEASE_MS,
    NOON,
    OTHER_QUEUE,
    QUEUE,
    WORKER,
    Conversation,
    make_ticket,
)
from outbox.transports.rq import RqTransport
from tests.support.servers import RedisServer
from tests.support.wait import eventually


@pytest.fixture
def sends(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by one per round trip: a client sends its whole pipeline at once."""
    seen: list[int] = []
    send = AbstractConnection.send_packed_command

    def counted(self: AbstractConnection, *args: Any, **options: Any) -> Any:
        seen.append(1)
        return send(self, *args, **options)

    monkeypatch.setattr(AbstractConnection, "send_packed_command", counted)
    return seen


def round_trips(sends: list[int], act: Callable[[], Any]) -> int:
    sends.clear()
    act()
    return len(sends)


class TestRoundTrips(Conversation):
    def test_a_batch_costs_one_round_trip(
        self, rq_transport: RqTransport, redis_client: redis.Redis, sends: list[int]
    ) -> None:
        queues = [QUEUE, OTHER_QUEUE]
        rq_transport.register_worker(WORKER, queues)
        warm_up(rq_transport)
        tickets = [make_ticket(NOON + i, queue_name=queues[i % 2]) for i in range(200)]
        held: list[Delivery] = []

        def claim() -> None:
            held.extend(self.claim(rq_transport, 64))

        costs = {
            "put": round_trips(sends, lambda: self.put(rq_transport, *tickets)),
            "claim": round_trips(sends, claim),
            "heartbeat": round_trips(sends, lambda: self.beat(rq_transport, *held)),
            "defer": round_trips(sends, lambda: rq_transport.defer_many([(held[0], 1)])),
            "finish": round_trips(sends, lambda: self.finish(rq_transport, *held[1:])),
            "depth": round_trips(sends, lambda: rq_transport.depth(queues)),
            "alive": round_trips(
                sends,
                lambda: rq_transport.alive([(t.queue_name, t.job_type, t.job_id) for t in tickets]),
            ),
            "cancel": round_trips(sends, lambda: self.cancel(rq_transport, tickets[-1])),
            "recover": round_trips(sends, lambda: rq_transport.recover(QUEUE)),
            "wake": round_trips(sends, lambda: rq_transport.wake("x")),
            "workers": round_trips(sends, rq_transport.workers),
            "wait": round_trips(sends, lambda: rq_transport.wait(QUEUE, 1_000)),
        }

        assert len(held) == 64
        assert costs == dict.fromkeys(costs, 1)

    def test_loading_scripts_costs_one_more(
        self, rq_transport: RqTransport, redis_client: redis.Redis, sends: list[int]
    ) -> None:
        rq_transport.depth([QUEUE])
        tickets = [make_ticket() for _ in range(100)]
        redis_client.script_flush()

        assert round_trips(sends, lambda: self.put(rq_transport, *tickets)) == 2


def warm_up(transport: RqTransport) -> None:
    """Have every script loaded."""
    transport.put_many([make_ticket(), make_ticket()])
    first, second = transport.claim(QUEUE, 2, WORKER, LEASE_MS)
    transport.heartbeat(WORKER, [first], LEASE_MS)
    transport.defer_many([(second, 0)])
    transport.finish_many(WORKER, [(first, Settlement.FINISHED)])
    transport.cancel(QUEUE, "synthetic", second.ticket.job_id)
    transport.alive([(QUEUE, "synthetic", second.ticket.job_id)])
    transport.recover(QUEUE)
    transport.wake("x")
    transport.workers()


class TestBounds(Conversation):
    def live(self, transport: RqTransport, tickets: list[Ticket]) -> None:
        """Let the tickets go through every state to every end."""
        self.put(transport, *tickets)
        for ticket in tickets[::7]:
            self.cancel(transport, ticket)
        while held := self.claim(transport, 64):
            self.beat(transport, *held)
            fresh = [delivery for delivery in held if delivery.handout == 1]
            deferred, lost = fresh[::5], fresh[1::5]
            transport.defer_many([(delivery, 1_000) for delivery in deferred])
            ended = [delivery for delivery in held if delivery not in deferred + lost]
            ends = [*Settlement] * 64
            transport.finish_many(WORKER, list(zip(ended, ends, strict=False)))
            transport.advance(LEASE_MS)
            transport.recover(QUEUE)

    def test_settled_tickets_leave_nothing_behind(
        self, rq_transport: RqTransport, redis_client: redis.Redis
    ) -> None:
        rq_transport.register_worker(WORKER, [QUEUE])
        self.live(rq_transport, [make_ticket(NOON + i) for i in range(300)])
        rq_transport.unregister_worker(WORKER)

        left = {key for key in redis_client.scan_iter() if b":job:cancel:" not in key}

        assert left == {b"rq:queues"}

    def test_a_cancelled_ticket_leaves_its_hint_alone(
        self, rq_transport: RqTransport, redis_client: redis.Redis
    ) -> None:
        tickets = [make_ticket(NOON + i) for i in range(2)]
        self.put(rq_transport, *tickets)
        rq_transport.defer_many([(self.claim(rq_transport, 1)[0], 60_000)])

        for ticket in tickets:
            self.cancel(rq_transport, ticket)

        hints = {f"rq:job:cancel:{ticket.job_id.hex}".encode() for ticket in tickets}
        assert set(redis_client.keys()) == {b"rq:queues", *hints}

    def test_heartbeats_keep_what_shows_an_execution(
        self, rq_transport: RqTransport, redis_client: redis.Redis
    ) -> None:
        self.put(rq_transport, make_ticket())
        delivery = self.claim_one(rq_transport)
        shown = f"rq:execution:{delivery.ticket.ticket_id}:{delivery.execution_id}"
        for key in (shown, f"rq:worker:{WORKER}:executions"):
            redis_client.expire(key, 5)

        self.beat(rq_transport, delivery)

        assert redis_client.pttl(shown) > LEASE_MS
        assert redis_client.pttl(f"rq:worker:{WORKER}:executions") > LEASE_MS

    def test_a_worker_that_was_forgotten_is_not_made_again_without_an_end(
        self, rq_transport: RqTransport, redis_client: redis.Redis
    ) -> None:
        self.live(rq_transport, [make_ticket(NOON + i) for i in range(10)])

        assert redis_client.keys("rq:worker*") == []

    def test_whatever_belongs_to_one_job_ends_by_itself(
        self, rq_transport: RqTransport, redis_client: redis.Redis
    ) -> None:
        """Also when nobody comes back: only a waiting or executing ticket itself has no end."""
        rq_transport.register_worker(WORKER, [QUEUE])
        tickets = [make_ticket(NOON + i) for i in range(3)]
        self.put(rq_transport, *tickets)
        held = self.claim(rq_transport, 2)
        self.beat(rq_transport, held[0])
        self.cancel(rq_transport, tickets[0])
        rq_transport.wake("dispatcher")

        endless = {key.decode() for key in redis_client.scan_iter() if redis_client.ttl(key) == -1}

        assert endless == {
            "rq:queues",
            "rq:workers",
            f"rq:workers:{QUEUE}",
            f"rq:queue:{QUEUE}",
            f"rq:wip:{QUEUE}",
            *(f"rq:job:{ticket.ticket_id}" for ticket in tickets),
        }
        hint = redis_client.ttl(f"rq:job:cancel:{tickets[0].job_id.hex}")
        assert 3_590 <= hint <= 3_600
        assert 0 < redis_client.pttl(f"rq:worker:{WORKER}") <= 90_000

    def test_a_ticket_is_small(self, rq_transport: RqTransport, redis_client: redis.Redis) -> None:
        ticket = make_ticket(job_type="t" * 64, traceparent=f"00-{'a' * 32}-{'b' * 16}-01")
        self.put(rq_transport, ticket)

        assert redis_client.memory_usage(f"rq:job:{ticket.ticket_id}") < 2_000

    def test_a_place_in_the_middle_of_2000_is_found_by_halving(
        self, rq_transport: RqTransport, redis_client: redis.Redis
    ) -> None:
        self.put(rq_transport, *(make_ticket(NOON + 2 * i) for i in range(2_000)))
        redis_client.config_resetstat()
        late = make_ticket(NOON + 1_501)

        self.put(rq_transport, late)

        calls = redis_client.info("commandstats")["cmdstat_lindex"]["calls"]
        assert calls <= math.ceil(math.log2(2_000)) + 3
        assert redis_client.lindex(f"rq:queue:{QUEUE}", 751) == late.ticket_id.encode()

    def test_a_batch_in_order_looks_at_the_list_once(
        self, rq_transport: RqTransport, redis_client: redis.Redis
    ) -> None:
        self.put(rq_transport, make_ticket(NOON - 1))
        redis_client.config_resetstat()

        self.put(rq_transport, *(make_ticket(NOON + i) for i in range(32)))

        assert redis_client.info("commandstats")["cmdstat_lindex"]["calls"] == 1

    def test_suspended_workers_do_not_spin(
        self, rq_transport: RqTransport, redis_client: redis.Redis, sends: list[int]
    ) -> None:
        self.put(rq_transport, make_ticket())
        redis_client.set("rq:suspended", 1)

        def loop() -> None:
            deadline = time.monotonic() + 0.4
            while time.monotonic() < deadline:
                rq_transport.wait(QUEUE, 100)
                self.claim(rq_transport)

        # a loop that does not sleep asks thousands of times
        assert round_trips(sends, loop) < 30


class TestPrefix(Conversation):
    PREFIX = "{shop}:test"

    @pytest.fixture
    def cluster(self, bare_cluster: RedisServer) -> RedisServer:
        """One node that owns every slot and still refuses calls over two slots."""
        with bare_cluster.client() as client:
            client.execute_command("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
            eventually(lambda: client.cluster("INFO")["cluster_state"] == "ok")
        return bare_cluster

    def test_no_key_stands_outside_the_prefix(
        self, redis_server: RedisServer, redis_client: redis.Redis
    ) -> None:
        transport = RqTransport(redis_server.url, prefix=self.PREFIX)
        live_once(transport)

        keys = redis_client.keys()

        assert len(keys) > 8
        assert [key for key in keys if not key.startswith(b"{shop}:test:")] == []
        transport.close()

    def test_two_prefixes_do_not_meet(self, redis_server: RedisServer) -> None:
        here, there = (RqTransport(redis_server.url, prefix=p) for p in ("one", "two"))
        self.put(here, make_ticket())
        here.wake("x")
        here.register_worker(WORKER, [QUEUE])

        assert there.depth([QUEUE]) == {QUEUE: 0}
        assert there.wait_wake(["x"], 1) is None
        assert there.workers() == []
        here.close()
        there.close()

    def test_a_hash_tag_keeps_every_call_in_one_slot(self, cluster: RedisServer) -> None:
        transport = RqTransport(cluster.url, prefix=self.PREFIX)

        live_once(transport)

        assert transport.check() == []
        with cluster.client() as client:
            slots = {
                client.execute_command("CLUSTER", "KEYSLOT", key) for key in client.scan_iter()
            }
        assert len(slots) == 1
        transport.close()

    def test_a_cluster_without_a_hash_tag_is_reported(self, cluster: RedisServer) -> None:
        transport = RqTransport(cluster.url, prefix="rq")

        [problem] = transport.check()

        assert re.search(r"\{rq\}", problem)
        transport.close()


def live_once(transport: RqTransport) -> None:
    """Leave a key of every kind."""
    warm_up(transport)
    transport.register_worker(WORKER, [QUEUE])
    transport.put_many([make_ticket(NOON + i) for i in range(4)])
    first, second = transport.claim(QUEUE, 2, WORKER, LEASE_MS)
    transport.defer_many([(first, 5_000)])
    transport.heartbeat(WORKER, [second], LEASE_MS)
    transport.cancel(QUEUE, "synthetic", second.ticket.job_id)
    transport.wake("dispatcher")
