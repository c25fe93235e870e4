"""Whatever stands in Redis under our names: what cannot be read holds up nobody, and nobody has to act."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from outbox.errors import TransportUnavailable
from outbox.transports.conformance.words import NOON, QUEUE, Conversation, again, make_ticket
from outbox.transports.rq import RqTransport

#: Fields, or an id, that we have not written.
DAMAGES: dict[str, dict[str, Any]] = {
    "an id of somebody else": {"id": "notanid"},
    "an id with other names": {"id": "a__b__c"},
    "an id that is no text": {"id": b"\xff\xfe"},
    "a delivery that is no number": {"fields": {"aq_delivery": "abc"}},
    "a delivery that is no text": {"fields": {"aq_delivery": b"\xff"}},
    "an endless delivery number": {"fields": {"aq_delivery": "1" * 5_000}},
    "a delivery number beyond its column": {"fields": {"aq_delivery": 2**31}},
    "a negative delivery number": {"fields": {"aq_delivery": -5}},
    "a score that is no number": {"fields": {"aq_score": "nan"}},
    "an empty score": {"fields": {"aq_score": ""}},
}


class TestDamage(Conversation):
    @pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
    def test_damaged_tickets_are_taken_off_and_hold_up_no_other(
        self, rq_transport: RqTransport, redis_client: redis.Redis, damage: dict[str, Any]
    ) -> None:
        """What cannot be read would come again for ever, each time with a batch of good ones (promise 2)."""
        ticket, damaged = make_ticket(NOON + 1), make_ticket()
        self.put(rq_transport, damaged)
        whole = redis_client.hgetall(f"rq:job:{damaged.ticket_id}")
        redis_client.delete(f"rq:job:{damaged.ticket_id}", f"rq:queue:{QUEUE}")
        id_ = damage.get("id", damaged.ticket_id)
        key = b"rq:job:" + id_ if isinstance(id_, bytes) else f"rq:job:{id_}"
        redis_client.hset(key, mapping={**whole, **damage.get("fields", {})})
        redis_client.rpush(f"rq:queue:{QUEUE}", id_)
        self.put(rq_transport, ticket)

        assert [d.ticket for d in self.claim(rq_transport, 5)] == [ticket]

        assert not redis_client.exists(key)
        assert redis_client.zcard(f"rq:wip:{QUEUE}") == 1
        # Where it stood for a job, it is missed, and may come anew.
        assert rq_transport.alive([(QUEUE, damaged.job_type, damaged.job_id)]) == [False]
        self.put(rq_transport, damaged)
        assert [d.ticket for d in self.claim(rq_transport, 5)] == [damaged]

    @pytest.mark.parametrize(
        "call", [b"\xff", b"", b"[" * 100_000, b'[0,0,[{"createdAt":' + b"9" * 9_999 + b"}],{}]"]
    )
    @pytest.mark.parametrize("handouts", ["", "many", "nan"])
    def test_damage_in_what_decides_nothing_stops_no_job(
        self, rq_transport: RqTransport, redis_client: redis.Redis, call: bytes, handouts: str
    ) -> None:
        ticket = make_ticket()
        self.put(rq_transport, ticket)
        redis_client.hset(
            f"rq:job:{ticket.ticket_id}", mapping={"data": call, "aq_handouts": handouts}
        )

        [delivery] = self.claim(rq_transport, 5)

        assert (delivery.ticket.job_id, delivery.ticket.delivery_no) == (
            ticket.job_id,
            ticket.delivery_no,
        )

    @pytest.mark.parametrize("field", ["aq_delivery", "aq_score"])
    def test_damaged_ticket_makes_way_for_its_next_delivery(
        self, rq_transport: RqTransport, redis_client: redis.Redis, field: str
    ) -> None:
        damaged, other = make_ticket(NOON + 5), make_ticket(NOON)
        self.put(rq_transport, damaged)
        redis_client.hset(f"rq:job:{damaged.ticket_id}", field, "no number")

        newer = again(damaged, 2)
        self.put(rq_transport, other, newer)

        assert {d.ticket for d in self.claim(rq_transport, 5)} == {other, newer}

    def test_foreign_keys_in_the_place_of_tickets_stop_no_other(
        self, rq_transport: RqTransport, redis_client: redis.Redis
    ) -> None:
        early, late, lost, gone = (make_ticket(NOON + n) for n in range(4))
        self.put(rq_transport, lost, gone)
        for ticket in (lost, gone):
            redis_client.delete(f"rq:job:{ticket.ticket_id}")
            redis_client.set(f"rq:job:{ticket.ticket_id}", "x")
        redis_client.zadd(f"rq:wip:{QUEUE}", {f"{lost.ticket_id}:ended": 1})
        redis_client.zadd(f"rq:scheduled:{QUEUE}", {lost.ticket_id: 1})

        self.put(rq_transport, late, early)

        rq_transport.recover(QUEUE)
        assert rq_transport.alive([(QUEUE, t.job_type, t.job_id) for t in (lost, early)]) == [
            False,
            True,
        ]
        assert {d.ticket for d in self.claim(rq_transport, 5)} == {early, late}

    @pytest.mark.parametrize("name", ["queue:reports", "wip:reports", "queues", "workers"])
    def test_somebody_elses_value_under_our_name_is_named_at_the_check(
        self, rq_transport: RqTransport, redis_client: redis.Redis, name: str
    ) -> None:
        self.put(rq_transport, make_ticket(queue_name="reports"))
        assert rq_transport.check() == []
        redis_client.delete(f"rq:{name}")
        redis_client.set(f"rq:{name}", "x")

        [problem] = rq_transport.check()

        assert problem.startswith(f"rq:{name} holds a string that is not ours")
        assert "AIJOBS_REDIS_PREFIX" in problem

    def test_why_a_queue_stands_still_is_one_word(
        self, rq_transport: RqTransport, redis_client: redis.Redis
    ) -> None:
        redis_client.set(f"rq:queue:{QUEUE}", "x")

        with pytest.raises(TransportUnavailable) as refused:
            self.claim(rq_transport, 1)

        assert refused.value.reason == "wrongtype"
