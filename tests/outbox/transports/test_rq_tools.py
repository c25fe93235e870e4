"""RQ's own tools read our data, and a stock worker can run a job in an emergency."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from rq import Queue, Worker
from rq.job import Job, JobStatus
from rq.registry import FailedJobRegistry, StartedJobRegistry, clean_registries
from rq.serializers import JSONSerializer
from rq.suspension import resume, suspend

from outbox.transports.base import Delivery, PutResult, Settlement, Ticket
from outbox.transports.conformance.words import (
    LEASE_MS,
    NOON,
    QUEUE,
    WORKER,
    Conversation,
    again,
    make_ticket,
)
from outbox.transports.rq import RqTransport
from tests.support.processes import Children
from tests.support.servers import RedisServer

ENTRY = "tests.outbox.transports.stock_entry.run_one"
FAILING_ENTRY = "tests.outbox.transports.stock_entry.always_fails"


def fetch(client: redis.Redis, ticket: Ticket) -> Job:
    return Job.fetch(ticket.ticket_id, connection=client, serializer=JSONSerializer)


@pytest.fixture
def queue(redis_client: redis.Redis) -> Queue:
    return Queue(QUEUE, connection=redis_client, serializer=JSONSerializer)


@pytest.fixture
def keeping(redis_server: RedisServer) -> Iterator[RqTransport]:
    transport = RqTransport(redis_server.url, keep_settled_s=60, entry=ENTRY)
    yield transport
    transport.close()


class TestReading(Conversation):
    def test_rq_reads_a_waiting_job(
        self, rq_transport: RqTransport, redis_client: redis.Redis, queue: Queue
    ) -> None:
        ticket = make_ticket()
        before = time.time()
        self.put(rq_transport, ticket)

        job = fetch(redis_client, ticket)

        assert job.get_status() is JobStatus.QUEUED
        assert job.func_name == "engine.worker.entry.run_one"
        assert (job.instance, job.kwargs) == (None, {})
        assert job.args[0]["jobId"] == str(ticket.job_id)
        assert (job.origin, job.timeout) == (QUEUE, 3600)
        assert (job.result_ttl, job.failure_ttl, job.ttl) == (60, 60, None)
        assert job.created_at.timestamp() == NOON / 1000
        assert job.enqueued_at is not None
        assert before - 1 < job.enqueued_at.timestamp() < time.time() + 1
        assert (job.started_at, job.ended_at, job.worker_name) == (None, None, None)
        assert (job.retries_left, job.meta, job.dependency_ids) == (None, {}, [])
        assert queue.job_ids == [ticket.ticket_id]
        assert job.get_position() == 0
        assert Queue.all(connection=redis_client) == [queue]

    def test_rq_reads_what_rq_would_have_written(
        self, rq_transport: RqTransport, redis_client: redis.Redis
    ) -> None:
        ticket = make_ticket()
        self.put(rq_transport, ticket)
        ours = fetch(redis_client, ticket)
        theirs = Job.create(
            "engine.worker.entry.run_one",
            args=ours.args,
            connection=redis_client,
            id="theirs",
            origin=QUEUE,
            timeout=3600,
            result_ttl=60,
            failure_ttl=60,
            description="aijobs ticket",
            status=JobStatus.QUEUED,
            serializer=JSONSerializer,
        )
        theirs.created_at, theirs.enqueued_at = ours.created_at, ours.enqueued_at
        theirs.save()

        reread = Job.fetch("theirs", connection=redis_client, serializer=JSONSerializer)

        assert json.loads(ours.data) == json.loads(reread.data)
        shown, expected = ours.to_dict(), reread.to_dict()
        assert shown | {"data": b""} == expected | {"data": b""}

    def test_rq_follows_a_job_through_its_life(
        self, keeping: RqTransport, redis_client: redis.Redis, queue: Queue
    ) -> None:
        ticket = make_ticket()
        self.put(keeping, ticket)
        states = [fetch(redis_client, ticket).get_status()]

        deferred = self.claim_one(keeping)
        job = fetch(redis_client, ticket)
        states.append(job.get_status())
        assert (job.worker_name, job.started_at is not None) == (WORKER, True)
        assert queue.started_job_registry.get_job_and_execution_ids() == [
            (ticket.ticket_id, deferred.execution_id)
        ]

        keeping.defer_many([(deferred, 1_000)])
        states.append(fetch(redis_client, ticket).get_status())
        assert queue.scheduled_job_registry.get_job_ids() == [ticket.ticket_id]

        keeping.advance(1_000)
        keeping.recover(QUEUE)
        self.finish(keeping, self.claim_one(keeping))
        job = fetch(redis_client, ticket)
        states.append(job.get_status())
        assert job.ended_at is not None
        assert queue.finished_job_registry.get_job_ids() == [ticket.ticket_id]
        assert 0 < redis_client.ttl(job.key) <= 60

        assert states == [
            JobStatus.QUEUED,
            JobStatus.STARTED,
            JobStatus.SCHEDULED,
            JobStatus.FINISHED,
        ]

    @pytest.mark.parametrize("settlement", list(Settlement))
    def test_settled_jobs_show_in_their_registry_until_their_time_is_over(
        self,
        keeping: RqTransport,
        redis_client: redis.Redis,
        settlement: Settlement,
    ) -> None:
        ticket = make_ticket()
        self.put(keeping, ticket)
        keeping.finish_many(WORKER, [(self.claim_one(keeping), settlement)])
        registry = f"rq:{settlement.value}:{QUEUE}"

        shown = redis_client.zrange(registry, 0, -1)
        keeping.advance(61_000)
        keeping.recover(QUEUE)

        assert shown == [ticket.ticket_id.encode()]
        assert redis_client.zcard(registry) == 0

    def test_rq_lists_our_workers(
        self, rq_transport: RqTransport, redis_client: redis.Redis
    ) -> None:
        rq_transport.register_worker(WORKER, [QUEUE, "ai-interactive"])
        self.put(rq_transport, make_ticket(), make_ticket())
        held = self.claim(rq_transport)
        self.beat(rq_transport, *held)

        [worker] = Worker.all(connection=redis_client)

        assert worker.name == WORKER
        assert worker.queue_names() == [QUEUE, "ai-interactive"]
        assert worker.get_state() == "busy"
        assert worker.birth_date is not None
        assert worker.last_heartbeat is not None
        assert {e.id for e in worker.get_current_executions()} == {d.execution_id for d in held}

        rq_transport.finish_many(WORKER, [(held[0], Settlement.FINISHED)])
        rq_transport.finish_many(WORKER, [(held[1], Settlement.FAILED)])
        self.beat(rq_transport)
        [worker] = Worker.all(connection=redis_client)
        assert worker.get_state() == "idle"
        assert (worker.successful_job_count, worker.failed_job_count) == (1, 1)

    def test_rq_info_shows_queues_and_workers(
        self, keeping: RqTransport, redis_server: RedisServer, children: Children
    ) -> None:
        keeping.register_worker(WORKER, [QUEUE])
        self.put(keeping, *(make_ticket(NOON + i) for i in range(5)))
        held = self.claim(keeping, 3)
        keeping.finish_many(WORKER, [(held[0], Settlement.FINISHED), (held[1], Settlement.FAILED)])

        shown = children.python("-m", "rq.cli", "info", "--raw", "--url", redis_server.url).check()

        assert f"queue {QUEUE} 2, 1 executing, 1 finished, 1 failed" in shown
        assert f"worker {WORKER} " in shown
        assert self.finish(keeping, held[2]) == [True]  # looking changed nothing

    def test_another_prefix_is_read_with_rqs_variable(
        self, redis_server: RedisServer, children: Children
    ) -> None:
        transport = RqTransport(redis_server.url, prefix="{shop}:aijobs")
        self.put(transport, make_ticket())

        shown = children.python(
            "-m",
            "rq.cli",
            "info",
            "--raw",
            "--url",
            redis_server.url,
            env={"RQ_KEY_PREFIX": "{shop}:aijobs"},
        ).check()

        assert f"queue {QUEUE} 1, 0 executing" in shown
        transport.close()


class TestStockWorker(Conversation):
    def run_stock_worker(
        self, children: Children, server: RedisServer, receipt: Path, *queues: str
    ) -> str:
        command = ["-m", "rq.cli", "worker", "--burst", "--serializer", "json", "--url", server.url]
        return children.python(*command, *queues, env={"RECEIPT": str(receipt)}).check(60)

    def test_a_stock_worker_runs_the_entry_with_the_ticket_alone(
        self,
        keeping: RqTransport,
        redis_server: RedisServer,
        children: Children,
        tmp_path: Path,
    ) -> None:
        tickets = [make_ticket(NOON + i, delivery_no=2) for i in (1, 0)]
        self.put(keeping, *tickets)

        log = self.run_stock_worker(children, redis_server, tmp_path / "receipt", QUEUE)

        calls = [json.loads(line) for line in (tmp_path / "receipt").read_text().splitlines()]
        assert [call[0][0]["jobId"] for call in calls] == [
            str(ticket.job_id) for ticket in reversed(tickets)
        ]
        assert all(len(args) == 1 and kwargs == {} for args, kwargs in calls)
        assert calls[0][0][0]["deliveryNo"] == 2
        assert "aijobs ticket" in log
        assert str(tickets[0].job_id) not in log  # RQ logs the description, never the arguments

    def test_what_a_stock_worker_ran_is_settled_and_can_be_delivered_again(
        self,
        keeping: RqTransport,
        redis_server: RedisServer,
        redis_client: redis.Redis,
        children: Children,
        tmp_path: Path,
    ) -> None:
        ticket = make_ticket()
        self.put(keeping, ticket)
        self.run_stock_worker(children, redis_server, tmp_path / "receipt", QUEUE)

        assert not self.is_alive(keeping, ticket)
        assert 0 < redis_client.ttl(f"rq:job:{ticket.ticket_id}") <= 60
        assert self.put(keeping, again(ticket, 2)) == [PutResult.NEWER]
        assert self.finish(keeping, self.claim_one(keeping)) == [True]
        assert redis_client.zcard(f"rq:finished:{QUEUE}") == 1

    def test_tr_4_a_ticket_that_failed_in_rq_is_delivered_again(
        self,
        redis_server: RedisServer,
        redis_client: redis.Redis,
        children: Children,
        tmp_path: Path,
    ) -> None:
        transport = RqTransport(redis_server.url, entry=FAILING_ENTRY)
        ticket = make_ticket()
        self.put(transport, ticket)
        self.run_stock_worker(children, redis_server, tmp_path / "receipt", QUEUE)
        failed = redis_client.zrange(f"rq:failed:{QUEUE}", 0, -1)
        was_alive = self.is_alive(transport, ticket)

        answer = self.put(transport, again(ticket, 2))

        assert failed == [ticket.ticket_id.encode()]
        assert (was_alive, answer) == (False, [PutResult.NEWER])
        assert redis_client.zcard(f"rq:failed:{QUEUE}") == 0
        assert self.claim_one(transport).ticket == again(ticket, 2)
        transport.close()

    def test_a_ticket_lost_by_a_dying_stock_worker_is_not_called_alive(
        self, rq_transport: RqTransport, redis_client: redis.Redis
    ) -> None:
        ticket = make_ticket()
        self.put(rq_transport, ticket)

        redis_client.lpop(f"rq:queue:{QUEUE}")  # popped, then killed before anything else

        assert not self.is_alive(rq_transport, ticket)
        assert self.put(rq_transport, again(ticket, 2)) == [PutResult.NEWER]
        assert self.claim_one(rq_transport).ticket.delivery_no == 2

    def test_an_execution_of_a_stock_worker_counts_as_alive_and_is_recovered(
        self, rq_transport: RqTransport, redis_client: redis.Redis, queue: Queue
    ) -> None:
        ticket = make_ticket()
        self.put(rq_transport, ticket)
        worker = Worker([queue], connection=redis_client, serializer=JSONSerializer)
        result = Queue.dequeue_any(
            [queue], None, connection=redis_client, serializer=JSONSerializer
        )
        assert result is not None
        worker.prepare_execution(result[0])
        worker.prepare_job_execution(result[0])

        alive = self.is_alive(rq_transport, ticket)
        back_early = rq_transport.recover(QUEUE)
        rq_transport.advance(4_000_000)  # past RQ's time-out of the job
        back_late = rq_transport.recover(QUEUE)

        assert (alive, back_early, back_late) == (True, 0, 1)
        assert self.claim_one(rq_transport).ticket == ticket


class TestNeighbours(Conversation):
    """Other users of the same keys: RQ's readers, cleaners and operators' commands."""

    def expire(self, client: redis.Redis, after_ms: int) -> None:
        """Let a stock cleaner look, as if so much time had passed."""
        registry = StartedJobRegistry(QUEUE, connection=client, serializer=JSONSerializer)
        registry.cleanup(timestamp=time.time() + after_ms / 1000)

    def test_a_stock_cleaner_lags_behind_our_recovery(
        self, rq_transport: RqTransport, redis_client: redis.Redis
    ) -> None:
        ticket = make_ticket()
        self.put(rq_transport, ticket)
        self.claim_one(rq_transport)

        self.expire(redis_client, LEASE_MS + 20_000)  # the lease has ended, the grace has not
        rq_transport.advance(LEASE_MS)

        assert rq_transport.recover(QUEUE) == 1
        assert self.claim_one(rq_transport).ticket == ticket

    def test_tr_5_a_job_that_rq_calls_abandoned_is_only_lost_to_its_worker(
        self, rq_transport: RqTransport, redis_client: redis.Redis
    ) -> None:
        ticket = make_ticket()
        self.put(rq_transport, ticket)
        delivery = self.claim_one(rq_transport)
        self.expire(redis_client, LEASE_MS + 60_000)
        assert fetch(redis_client, ticket).get_status() is JobStatus.FAILED

        assert self.beat(rq_transport, delivery).lost == {delivery.execution_id}
        assert not self.is_alive(rq_transport, ticket)
        assert self.put(rq_transport, again(ticket, 2)) == [PutResult.NEWER]
        assert self.finish(rq_transport, self.claim_one(rq_transport)) == [True]
        assert len(FailedJobRegistry(QUEUE, connection=redis_client)) == 0

    def test_stock_maintenance_leaves_waiting_and_live_tickets_alone(
        self, rq_transport: RqTransport, redis_client: redis.Redis, queue: Queue
    ) -> None:
        tickets = [make_ticket(NOON + i) for i in range(3)]
        self.put(rq_transport, *tickets)
        held = self.claim(rq_transport, 2)
        rq_transport.defer_many([(held[1], 60_000)])

        clean_registries(queue, [])

        assert [self.is_alive(rq_transport, t) for t in tickets] == [True] * 3
        assert self.finish(rq_transport, held[0]) == [True]

    def test_suspended_workers_get_nothing_and_resumed_ones_go_on(
        self, rq_transport: RqTransport, redis_client: redis.Redis
    ) -> None:
        self.put(rq_transport, make_ticket())
        suspend(redis_client)

        assert rq_transport.wait(QUEUE, 50) is True
        assert self.claim(rq_transport) == []

        resume(redis_client)
        assert rq_transport.wait(QUEUE, 50) is True
        assert len(self.claim(rq_transport)) == 1

    def test_a_foreign_job_on_our_queue_is_set_aside_and_can_be_requeued(
        self, rq_transport: RqTransport, redis_client: redis.Redis, queue: Queue
    ) -> None:
        foreign = queue.enqueue("os.getpid")
        ticket = make_ticket()
        self.put(rq_transport, ticket)

        assert [d.ticket for d in self.claim(rq_transport)] == [ticket]

        registry = queue.failed_job_registry
        assert registry.get_job_ids() == [foreign.id]
        registry.requeue(foreign.id)
        assert queue.job_ids == [foreign.id]

    def test_leftovers_in_the_list_are_skipped(
        self, rq_transport: RqTransport, redis_client: redis.Redis
    ) -> None:
        ticket = make_ticket()
        self.put(rq_transport, ticket)
        redis_client.lpush(f"rq:queue:{QUEUE}", "gone", ticket.ticket_id, "gone-too")
        redis_client.set("rq:job:not-a-hash", "x")
        redis_client.lpush(f"rq:queue:{QUEUE}", "not-a-hash")

        deliveries: list[Delivery] = self.claim(rq_transport, 2)

        assert [d.ticket for d in deliveries] == [ticket]
        assert rq_transport.depth([QUEUE]) == {QUEUE: 0}

    def test_leftovers_in_registries_take_no_execution_from_its_worker(
        self, rq_transport: RqTransport, redis_client: redis.Redis
    ) -> None:
        ticket, waiting = make_ticket(), make_ticket(NOON + 1)
        self.put(rq_transport, ticket, waiting)
        [delivery] = self.claim(rq_transport, 1)
        redis_client.zadd(
            f"rq:wip:{QUEUE}",
            {f"{ticket.ticket_id}:ended": 1, f"{waiting.ticket_id}:ended": 1, "no-pair": 1},
        )
        redis_client.zadd(f"rq:scheduled:{QUEUE}", {ticket.ticket_id: 1, waiting.ticket_id: 1})

        assert rq_transport.recover(QUEUE) == 0

        assert redis_client.zcard(f"rq:wip:{QUEUE}") == 1
        assert redis_client.zcard(f"rq:scheduled:{QUEUE}") == 0
        assert self.finish(rq_transport, delivery) == [True]
        assert self.drain(rq_transport) == [waiting]

    def test_a_key_of_another_type_refuses_one_ticket_only(
        self, rq_transport: RqTransport, redis_client: redis.Redis
    ) -> None:
        bad, good = make_ticket(), make_ticket(NOON + 1)
        redis_client.set(f"rq:job:{bad.ticket_id}", "x")

        refusal, answer = self.put(rq_transport, bad, good)

        assert getattr(refusal, "ticket_id", None) == bad.ticket_id
        assert answer == PutResult.NEW

    def test_stock_workers_are_listed_with_ours(
        self, rq_transport: RqTransport, redis_client: redis.Redis, queue: Queue
    ) -> None:
        stock = Worker([queue], name="stock", connection=redis_client)
        stock.register_birth()
        rq_transport.register_worker(WORKER, [QUEUE])

        assert [(w.name, w.queues) for w in rq_transport.workers()] == [
            ("stock", (QUEUE,)),
            (WORKER, (QUEUE,)),
        ]

    def test_stock_tools_see_no_dispatcher_among_the_workers(
        self, rq_transport: RqTransport, redis_client: redis.Redis, queue: Queue
    ) -> None:
        rq_transport.register_worker(WORKER, [QUEUE])
        rq_transport.register_dispatcher("d")

        assert [worker.name for worker in Worker.all(connection=redis_client)] == [WORKER]
        assert 0 < redis_client.pttl("rq:dispatcher:d") <= 90_000

    def test_dead_workers_are_forgotten(
        self, rq_transport: RqTransport, redis_client: redis.Redis
    ) -> None:
        self.put(rq_transport, make_ticket())
        rq_transport.register_worker(WORKER, [QUEUE])
        assert 0 < redis_client.pttl(f"rq:worker:{WORKER}") <= 90_000
        redis_client.delete(f"rq:worker:{WORKER}")  # as its end of life would

        assert rq_transport.workers() == []
        assert redis_client.smembers("rq:workers") == set()
        assert redis_client.smembers(f"rq:workers:{QUEUE}") == set()
