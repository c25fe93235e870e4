"""Failures other systems had with Redis and RQ, by their numbers; the rest of TR-* stands in
``test_server_trouble`` (3, 9, 10, 11, 13) and ``test_rq_tools`` (4, 5)."""

from __future__ import annotations

import json
import logging
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis
from rq.job import Job, validate_job_id
from rq.serializers import JSONSerializer

from outbox.transports.base import PutResult, Settlement
from outbox.transports.conformance.words import (
    LEASE_MS,
    NOON,
    OTHER_QUEUE,
    QUEUE,
    WORKER,
    Conversation,
    again,
    make_ticket,
)
from outbox.transports.rq import RqTransport
from tests.support.peek import everything

MARKER = "the user's secret text"


class TestKnownFailures(Conversation):
    def test_tr_1_rq_accepts_the_id_and_a_job_keeps_it(
        self, rq_transport: RqTransport, redis_client: redis.Redis
    ) -> None:
        ticket = make_ticket(job_type="active_recall")
        self.put(rq_transport, ticket)

        [queued] = redis_client.lrange(f"rq:queue:{QUEUE}", 0, -1)

        validate_job_id(queued.decode())
        assert queued.decode() == ticket.ticket_id
        assert again(ticket, 2, NOON).ticket_id.endswith(ticket.job_id.hex)

    def test_tr_2_two_dispatchers_and_two_workers_make_one_execution_per_ticket(
        self, rq_transport: RqTransport
    ) -> None:
        tickets = [make_ticket(NOON + i) for i in range(200)]

        def dispatch() -> list[object]:
            return [
                a for n in range(0, 200, 20) for a in self.put(rq_transport, *tickets[n : n + 20])
            ]

        def work() -> int:
            count = 0
            while held := self.claim(rq_transport, 9):
                count += sum(self.finish(rq_transport, *held))
            return count

        with ThreadPoolExecutor(2) as threads:
            answers = [future.result() for future in [threads.submit(dispatch) for _ in range(2)]]
            counts = [future.result() for future in [threads.submit(work) for _ in range(2)]]

        assert sum(answer.count(PutResult.NEW) for answer in answers) == 200
        assert sum(answer.count(PutResult.DUPLICATE) for answer in answers) == 200
        assert sum(counts) == 200

    def test_tr_6_rq_is_told_to_retry_nothing(
        self, rq_transport: RqTransport, redis_client: redis.Redis
    ) -> None:
        ticket = make_ticket()
        self.put(rq_transport, ticket)

        job = Job.fetch(ticket.ticket_id, connection=redis_client, serializer=JSONSerializer)

        assert (job.number_of_retries, job.retries_left, job.retry_intervals) == (None, None, None)
        assert not job.should_retry
        assert (job.success_callback, job.failure_callback, job.stopped_callback) == (None,) * 3

    def test_tr_7_a_deferred_ticket_needs_no_scheduler(self, rq_transport: RqTransport) -> None:
        ticket = make_ticket()
        self.put(rq_transport, ticket)
        rq_transport.defer_many([(self.claim_one(rq_transport), 10_000)])

        rq_transport.advance(10_000)
        rq_transport.recover(QUEUE)  # any worker's own round

        assert self.claim_one(rq_transport).ticket == ticket

    def test_tr_8_rqs_time_limit_is_a_far_fence_in_whole_seconds(
        self, rq_transport: RqTransport, redis_client: redis.Redis
    ) -> None:
        ticket = make_ticket()
        self.put(rq_transport, ticket)

        assert redis_client.hget(f"rq:job:{ticket.ticket_id}", "timeout") == b"3600"

    def test_tr_8_leases_are_kept_to_the_millisecond(
        self, rq_transport: RqTransport, redis_client: redis.Redis
    ) -> None:
        for i in range(4):  # of four ends, one at most may fall on a whole second by chance
            self.put(rq_transport, make_ticket(NOON + i))
            rq_transport.claim(QUEUE, 1, WORKER, LEASE_MS + 200 * i + i)

        ends = [end for _, end in redis_client.zrange(f"rq:wip:{QUEUE}", 0, -1, withscores=True)]

        assert sum(end % 1 != 0 for end in ends) >= 3

    def test_tr_12_no_text_of_a_caller_reaches_redis_or_a_log(
        self,
        rq_transport: RqTransport,
        redis_client: redis.Redis,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        caplog.set_level(logging.DEBUG)
        ticket = make_ticket(traceparent=MARKER)
        rq_transport.register_worker(WORKER, [QUEUE])
        self.put(rq_transport, ticket, make_ticket(job_type=MARKER))
        self.beat(rq_transport, self.claim_one(rq_transport))

        stored = everything(redis_client)

        assert ticket.job_id.hex.encode() in stored
        assert MARKER.encode() not in stored
        assert MARKER not in caplog.text

    def test_tr_14_what_is_stored_is_json(
        self, rq_transport: RqTransport, redis_client: redis.Redis
    ) -> None:
        ticket = make_ticket()
        self.put(rq_transport, ticket)

        stored = redis_client.hget(f"rq:job:{ticket.ticket_id}", "data")

        assert stored is not None
        function, instance, [body], options = json.loads(stored)
        assert (function, instance, options) == ("engine.worker.entry.run_one", None, {})
        assert set(body) == {"v", "jobId", "jobType", "deliveryNo", "createdAt", "traceparent"}

    def test_tr_14_entries_of_another_release_are_handed_out(
        self, rq_transport: RqTransport, redis_client: redis.Redis
    ) -> None:
        ticket = make_ticket(NOON)
        call = ["old.entry", None, [{"jobId": str(ticket.job_id), "createdAt": NOON, "x": 1}], {}]
        redis_client.hset(
            f"rq:job:{ticket.ticket_id}",
            mapping={
                "status": "queued",
                "data": json.dumps(call),
                "aq_delivery": 1,
                "aq_score": NOON,
                "aq_field_of_tomorrow": "x",
            },
        )
        redis_client.rpush(f"rq:queue:{QUEUE}", ticket.ticket_id)

        delivery = self.claim_one(rq_transport)

        assert delivery.ticket == ticket
        assert rq_transport.finish_many(WORKER, [(delivery, Settlement.FINISHED)]) == [True]

    def test_tr_15_steady_interactive_work_does_not_starve_the_other_queue(
        self, rq_transport: RqTransport
    ) -> None:
        background = make_ticket()
        self.put(rq_transport, *(make_ticket(i, queue_name=OTHER_QUEUE) for i in range(50)))
        self.put(rq_transport, background)

        [delivery] = rq_transport.claim(QUEUE, 1, "background-worker", LEASE_MS)

        assert delivery.ticket == background
