"""Leases in a real worker: renewed whatever the work does, and void once they are lost (WL-1, WL-2)."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from engine import JobContext
from engine.errors import ProviderError, ProviderRateLimited
from engine.lifecycle.lease import Claim, Lease
from engine.pipeline.heartbeat import Heartbeat
from engine.pipeline.work import Abort, Work
from engine.worker.process import WorkerProcess
from outbox.base.db import UnitOfWork, create_engine_for
from registry.job import StartReason
from registry.queues import QueueSpec
from tests.engine.pipeline.samples import Answer, Ask
from tests.support.wait import eventually
from tests.support.world import World

MakeWorld = Callable[..., World]
BRISK = QueueSpec("ai-background", concurrency=4, lease_ms=3_000, heartbeat_ms=1_000)


def test_a_handler_that_burns_the_processor_keeps_its_lease(make_world: MakeWorld) -> None:
    """WL-2. Three lease times of pure computing: renewed all along by a thread of its own, started once."""
    world = make_world(queues=[BRISK])
    burnt = threading.Event()

    @world.app.job("burns", input=Ask, output=Answer, timeout_ms=60_000)
    def burns(ctx: JobContext[Ask]) -> Answer:
        first = world.row(ctx.job.id)["lock_until"]
        end = time.monotonic() + 20
        while time.monotonic() < end and not burnt.is_set():
            sum(range(20_000))
            if (world.row(ctx.job.id)["lock_until"] - first).total_seconds() > 5:
                burnt.set()
        return Answer(value="done")

    job = world.create(job_type="burns", payload={})
    world.dispatch()
    with world.working():
        eventually(lambda: world.job(job.id).is_final, timeout=40)

    assert burnt.is_set()
    assert world.job(job.id).lifecycle_status == "succeeded"
    assert len(world.claims(job.id)) == 1


def test_an_event_loop_that_is_blocked_keeps_its_leases(make_world: MakeWorld) -> None:
    """WL-2. A handler that blocks the loop costs time, not the leases of its neighbours."""
    world = make_world(queues=[BRISK])
    begun, go_on = threading.Event(), threading.Event()

    @world.app.job("blocks", input=Ask, output=Answer, timeout_ms=60_000)
    async def blocks(ctx: JobContext[Ask]) -> Answer:
        begun.set()
        go_on.wait(30)
        return Answer()

    job = world.create(job_type="blocks", payload={})
    world.dispatch()
    with world.working():
        assert begun.wait(20)
        first = world.row(job.id)["lock_until"]
        eventually(
            lambda: (world.row(job.id)["lock_until"] - first).total_seconds() > 3.5, timeout=30
        )
        go_on.set()
        eventually(lambda: world.job(job.id).is_final)

    assert world.job(job.id).lifecycle_status == "succeeded"
    assert len(world.claims(job.id)) == 1


def test_a_frozen_worker_that_wakes_after_its_lease_writes_nothing(world: World) -> None:
    """WL-1, promise 3. Another took over and finished; the late result is refused and counted."""
    begun, go_on = threading.Event(), threading.Event()
    workers: list[int] = []

    @world.app.job("slow", input=Ask, output=Answer)
    def slow(ctx: JobContext[Ask]) -> Answer:
        workers.append(ctx.attempt_no)
        if ctx.attempt_no == 1:
            begun.set()
            assert go_on.wait(20)
        return Answer(value=ctx.attempt_no)

    job = world.create(job_type="slow", payload={})
    world.dispatch()
    with world.working(concurrency=1, name="frozen"):
        assert begun.wait(20)
        world.advance(61)
        world.upkeep()
        world.dispatch()
        world.work(name="second")
        finished = world.row(job.id)
        go_on.set()
        eventually(lambda: world.count("job.fenced"))

    assert world.row(job.id) == finished
    assert world.output(job.id) == {"value": 2}
    assert len(world.endings(job.id)) == 1
    assert [c.worker for c in world.claims(job.id)] == ["frozen", "second"]
    assert world.depth() == 0


@pytest.mark.parametrize("ends", ["fails", "rate", "progress"])
def test_a_lost_attempt_can_end_in_no_other_way_either(world: World, ends: str) -> None:
    """WL-1. Failing, parking and reporting are refused like a result."""
    begun, go_on = threading.Event(), threading.Event()

    @world.app.job("lost", input=Ask, output=Answer, max_retries=1, backoff_ms=60_000)
    def lost(ctx: JobContext[Ask]) -> Answer:
        begun.set()
        assert go_on.wait(20)
        if ends == "progress":
            ctx.progress(99, "late")
        raise ProviderRateLimited(retry_after_ms=5) if ends == "rate" else ValueError

    job = world.create(job_type="lost", payload={})
    world.dispatch()
    with world.working(concurrency=1):
        assert begun.wait(20)
        world.advance(61)
        world.upkeep()
        before = world.row(job.id)
        go_on.set()
        eventually(lambda: world.count("job.fenced"))

    assert world.row(job.id) == before
    assert len(world.deliveries(job.id)) == 2


def test_a_worker_stops_working_on_what_it_has_lost(make_world: MakeWorld) -> None:
    """WL-1. The next heartbeat tells, and the handler is aborted: it does not run on for nothing."""
    world = make_world(queues=[BRISK])
    begun, stopped = threading.Event(), threading.Event()

    @world.app.job("endless", input=Ask, output=Answer)
    async def endless(ctx: JobContext[Ask]) -> Answer:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return Answer()

    job = world.create(job_type="endless", payload={})
    world.dispatch()
    with world.working(concurrency=1):
        assert begun.wait(20)
        table = world.table("ai_job")
        world.run(lambda conn: conn.execute(
            sa.update(table).where(table.c.id == job.id).values(epoch=7, locked_by="another")
        ))  # fmt: skip
        assert stopped.wait(20)
        eventually(lambda: world.count("job.fenced"))

    assert world.row(job.id)["locked_by"] == "another"


def test_hosts_whose_clocks_differ_share_a_queue(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """WL-7. Ten minutes ahead or behind: no live lease is taken, nothing is early or late."""
    held = world.claimed()
    for shift in (-600.0, 600.0):
        real = time.time_ns

        def shifted(shift: float = shift, real: Callable[[], int] = real) -> int:
            return real() + int(shift * 1e9)

        monkeypatch.setattr("time.time_ns", shifted)
        monkeypatch.setattr("time.time", lambda shifted=shifted: shifted() / 1e9)
        job = world.create()
        world.dispatch()
        world.upkeep()
        world.work()
        assert world.job(job.id).lifecycle_status == "succeeded"
        monkeypatch.undo()
        monkeypatch.setattr("engine.worker.fetcher.WAIT_MS", 10)

    assert world.row(held.job_id)["epoch"] == 1
    assert world.row(held.job_id)["lock_until"] is not None


class TestHeartbeats:
    """One statement for all; one that cannot be renewed costs the others nothing."""

    @pytest.fixture
    def beats(
        self, world: World, tables_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> Iterator[Any]:
        """A heartbeat over the given leases, with lock waits of a second."""
        monkeypatch.setattr("outbox.base.db.LOCK_WAIT_S", 1)
        engine = create_engine_for(tables_url, pool_size=2, max_overflow=0)
        stopped: list[tuple[Lease, Abort]] = []

        def make(leases: list[Lease]) -> tuple[Heartbeat, list[tuple[Lease, Abort]], list[int]]:
            works = [_work(world, lease) for lease in leases]
            waits: list[int] = []
            sa.event.listen(engine, "handle_error", lambda _context: waits.append(1))
            heartbeat = Heartbeat(
                uow=UnitOfWork(engine, max_runs=2), lifecycle=world.app.lifecycle, transport=world.transport,
                telemetry=world.app.telemetry, worker="worker-a", running=lambda: works,
                stop=lambda work, reason: stopped.append((work.lease, reason)),
            )  # fmt: skip
            return heartbeat, stopped, waits

        yield make
        engine.dispose()

    @pytest.mark.databases("mariadb", "postgresql")
    def test_rows_that_others_hold_do_not_cost_the_free_ones_their_leases(
        self, world: World, database_kind: str, beats: Any
    ) -> None:
        """WL-2. Projectors that take long, callers that keep a transaction open: any number of them."""
        leases = [world.claimed() for _ in range(8)]
        held, free = leases[:6], leases[6:]
        heartbeat, stopped, waits = beats(leases)
        before = {x: world.row(x.job_id)["lock_until"] for x in leases}
        world.app.clock.advance(20_000)
        table = world.table("ai_job")
        with world.engine.connect() as conn:
            for lease in held:
                conn.execute(
                    sa.select(table.c.id).where(table.c.id == lease.job_id).with_for_update()
                )
            heartbeat.run_once()
            conn.rollback()

        for lease in free:
            assert (world.row(lease.job_id)["lock_until"] - before[lease]).total_seconds() > 19
        assert stopped == []
        # A wait for each held row, one after the other, would outlast the leases of the free ones.
        assert len(waits) <= 3

    def test_what_is_lost_and_what_is_cancelled_is_told(self, world: World, beats: Any) -> None:
        live, lost, asked = (world.claimed() for _ in range(3))
        world.run(lambda conn: world.app.lifecycle.release(conn, lost, look_after_ms=1))
        world.app.jobs.request_cancel(asked.job_id)
        heartbeat, stopped, _ = beats([live, lost, asked])

        heartbeat.run_once()

        assert sorted(stopped, key=str) == sorted(
            [(lost, Abort.FENCED), (asked, Abort.CANCEL)], key=str
        )

    def test_a_retry_in_place_is_not_taken_for_a_loss(self, world: World) -> None:
        """A heartbeat that falls between the new claim's COMMIT and the worker's next step aborts nobody."""
        calls: list[int] = []

        @world.app.job("shaky", input=Ask, output=Answer, backoff_ms=1, max_retries=4)
        async def shaky(ctx: JobContext[Ask]) -> Answer:
            calls.append(ctx.attempt_no)
            if ctx.attempt_no < 4:
                raise ProviderError
            return Answer()

        job = world.create(job_type="shaky", payload={})
        world.dispatch()
        worker, beats = _with_beats(world)
        settle = world.app.lifecycle.retry_in_place

        def settle_and_beat(conn: sa.Connection, *arguments: Any, **options: Any) -> Any:
            answer = settle(conn, *arguments, **options)
            # As if COMMIT had been sent and a heartbeat came before the answer was heard.
            conn.commit()
            beats[0].run_once()
            return answer

        world.app.lifecycle.retry_in_place = settle_and_beat  # type: ignore[method-assign]
        worker.run(burst=True)

        assert calls == [1, 2, 3, 4]
        assert world.job(job.id).lifecycle_status == "succeeded"

    @pytest.mark.parametrize("projector", ["rows", None])
    @pytest.mark.parametrize("error", [None, ValueError("no")])
    @pytest.mark.databases("sqlite")
    def test_an_end_that_is_just_written_is_not_taken_for_a_loss(
        self, world: World, database_kind: str, projector: str | None, error: Exception | None
    ) -> None:
        """A heartbeat that falls between the last COMMIT and the worker's next step tells of no lost lease."""

        async def ends(ctx: JobContext[Ask]) -> Answer:
            if error is not None:
                raise error
            return Answer()

        world.app.projector("rows")(lambda session, job, output: None)
        world.app.job("ends", input=Ask, output=Answer, max_retries=0, projector=projector)(ends)
        lost: list[Any] = []
        world.app.telemetry.listen(
            lambda fact, ids: lost.append(ids) if fact == "lease.lost" else None
        )
        job = world.create(job_type="ends", payload={})
        world.dispatch()
        worker, beats = _with_beats(world)
        announce, beaten = world.app.endings.announce, []

        def announce_and_beat(conn: sa.Connection, *arguments: Any) -> None:
            announce(conn, *arguments)
            conn.commit()
            beaten.append(beats[0].run_once())

        world.app.endings.announce = announce_and_beat  # type: ignore[method-assign]
        worker.run(burst=True)

        assert beaten
        assert world.job(job.id).is_final
        assert lost == []


def _with_beats(world: World) -> tuple[WorkerProcess, list[Heartbeat]]:
    """A worker, and what will be its heartbeat."""
    worker = world.worker()
    beats: list[Heartbeat] = []
    make = worker._make_heartbeat

    def remember(**parts: Any) -> Heartbeat:
        beats.append(make(**parts))
        return beats[-1]

    worker._make_heartbeat = remember
    return worker, beats


def _work(world: World, lease: Lease) -> Work:
    app = world.app
    app.start()
    job = world.job(lease.job_id)
    return Work(
        job=job, claim=Claim(lease, 1, StartReason.FIRST), delivery=None,
        definition=app.registry.get(job.job_type), queue=app.registry.queue(job.queue_name), snapshot=None,
    )  # fmt: skip
