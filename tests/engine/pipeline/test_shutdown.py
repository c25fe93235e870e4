"""Stopping a worker: claim nothing more, drain, then hand back without using an attempt (WL-17)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from engine import JobContext
from engine.worker.process import WorkerProcess
from outbox.transports.base import Delivery, Stopped, never
from outbox.transports.memory import MemoryTransport
from tests.engine.pipeline.samples import Answer, Ask
from tests.support.wait import PATIENCE_S, eventually
from tests.support.world import World


class Jobs:
    """A long job that waits to be aborted, and a short one that waits to be let go."""

    def __init__(self, world: World) -> None:
        self.begun = threading.Semaphore(0)
        self.let_short_go = threading.Event()
        self.aborted = threading.Event()

        @world.app.job("long", input=Ask, output=Answer)
        async def long(ctx: JobContext[Ask]) -> Answer:
            if ctx.job.epoch > 1:
                return Answer(value="second")
            self.begun.release()
            try:
                await asyncio.Event().wait()
            finally:
                self.aborted.set()
            return Answer()

        @world.app.job("short", input=Ask, output=Answer)
        def short(ctx: JobContext[Ask]) -> Answer:
            self.begun.release()
            assert self.let_short_go.wait(PATIENCE_S)
            return Answer(value="done")


class StoppedWithTickets(MemoryTransport):
    """Its worker is stopped in the moment in which it is handed out tickets."""

    def __init__(self) -> None:
        super().__init__()
        self.stop: Callable[[], None] = lambda: None
        self.handed_out = 0

    def claim(
        self, queue: str, limit: int, worker: str, lease_ms: int, *, wait_ms: int = 0, stopped: Stopped = never
    ) -> list[Delivery]:
        found = super().claim(queue, limit, worker, lease_ms, wait_ms=wait_ms, stopped=stopped)
        if found and not self.handed_out:
            self.handed_out = len(found)
            self.stop()
            eventually(stopped)
        return found


@contextmanager
def running(worker: WorkerProcess) -> Iterator[Callable[[], bool]]:
    """The worker on a thread; the function joins it and gives what `run` returned."""
    results: list[bool] = []
    thread = threading.Thread(target=lambda: results.append(worker.run()), daemon=True)
    thread.start()
    assert worker.wait_ready(PATIENCE_S)

    def end() -> bool:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
        return results[0]

    try:
        yield end
    finally:
        worker.stop()
        worker.stop()
        thread.join(PATIENCE_S)


def begin(world: World, jobs: Jobs, *types: str) -> list[Any]:
    made = [world.create(job_type=name, payload={}).id for name in types]
    world.dispatch()
    for _ in types:
        assert jobs.begun.acquire(timeout=PATIENCE_S)
    return made


def test_within_the_grace_the_short_job_ends_and_the_long_one_is_handed_back(world: World) -> None:
    """WL-17. Nothing new is claimed; the long one restarts at once elsewhere and has used no attempt."""
    jobs = Jobs(world)
    worker = world.worker(grace_ms=1_500)
    with running(worker) as end:
        short, long = begin(world, jobs, "short", "long")
        worker.stop()
        late = world.create()
        world.dispatch()
        jobs.let_short_go.set()
        assert end() is False

    assert jobs.aborted.is_set()
    assert world.job(short).lifecycle_status == "succeeded"
    assert world.row(late.id)["epoch"] == 0
    row = world.row(long)
    assert (row["lifecycle_status"], row["lock_until"], row["start_reason"]) == ("running", None, "resume")
    world.dispatch()
    world.work()
    assert world.output(long) == {"value": "second"}
    assert world.job(long).attempt_count == 1
    assert world.job(late.id).lifecycle_status == "succeeded"


def test_a_worker_with_nothing_left_says_that_it_has_drained(world: World) -> None:
    jobs = Jobs(world)
    worker = world.worker(grace_ms=20_000)
    with running(worker) as end:
        [short] = begin(world, jobs, "short")
        worker.stop()
        jobs.let_short_go.set()
        assert end() is True

    assert world.job(short).lifecycle_status == "succeeded"


def test_tickets_that_come_with_the_stop_go_to_another_worker_at_once(make_world: Callable[..., World]) -> None:
    transport = StoppedWithTickets()
    world = make_world(transport)
    worker = world.worker()
    with running(worker) as end:
        transport.stop = worker.stop
        job = world.create()
        world.dispatch()
        assert end()

    assert (transport.handed_out, world.depth(), world.claims(job.id)) == (1, 1, [])
    transport.stop = lambda: None
    world.settle()
    assert world.job(job.id).attempt_count == 1


def test_a_second_stop_hands_back_at_once(world: World) -> None:
    """WL-17. It does not wait for the grace."""
    jobs = Jobs(world)
    worker = world.worker(grace_ms=600_000)
    with running(worker) as end:
        [long] = begin(world, jobs, "long")
        worker.stop()
        worker.stop()
        assert end() is False

    assert world.row(long)["lock_until"] is None
    assert [e.delivery_no for e in world.deliveries(long)] == [1, 2]


def test_a_plain_handler_that_runs_on_keeps_no_worker_and_stores_nothing(world: World) -> None:
    """TR-8, WL-17. Its thread cannot be stopped; its job is handed back and its late result is not taken."""
    jobs = Jobs(world)
    worker = world.worker(grace_ms=600_000)
    with running(worker) as end:
        [short] = begin(world, jobs, "short")
        worker.stop()
        worker.stop()
        assert end() is False
    before = world.row(short)
    jobs.let_short_go.set()

    assert world.row(short) == before
    assert world.output(short) is None
    assert before["lock_until"] is None


def test_a_job_that_was_asked_to_cancel_is_cancelled_rather_than_handed_back(world: World) -> None:
    jobs = Jobs(world)
    worker = world.worker(grace_ms=600_000)
    with running(worker) as end:
        [long] = begin(world, jobs, "long")
        world.app.jobs.request_cancel(long)
        worker.stop()
        worker.stop()
        end()

    eventually(lambda: world.job(long).cancel_requested_at)
    world.settle()
    assert world.job(long).lifecycle_status == "cancelled"
    assert len(world.endings(long)) == 1
