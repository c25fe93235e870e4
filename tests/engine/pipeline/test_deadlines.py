"""Time limits that hold: the engine decides, whatever the handler does (TR-8)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from engine import JobContext
from tests.engine.pipeline.samples import Answer, Ask
from tests.support.provider import Silence
from tests.support.wait import eventually
from tests.support.world import World


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Opened at the end of the test, for handlers that outlive their time."""
    gate = threading.Event()
    yield gate
    gate.set()


def register(world: World, handler: Any, **policies: Any) -> None:
    options = {"timeout_ms": 1_000, "max_retries": 0} | policies
    world.app.job("timed", input=Ask, output=Answer, **options)(handler)
    # The least time a definition may have is a second; the tests have less.
    definition = world.app.registry.get("timed")
    object.__setattr__(definition.execution, "timeout_ms", 60)


def run(world: World) -> Any:
    job = world.create(job_type="timed", payload={})
    world.dispatch()
    world.work()
    return world.job(job.id)


def test_an_async_handler_is_cancelled_at_its_deadline(world: World) -> None:
    """TR-8. Where it awaits; its own clean-up runs."""
    cleaned = threading.Event()

    async def slow(ctx: JobContext[Ask]) -> Answer:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.set()
        return Answer()

    register(world, slow)
    job = run(world)

    assert (job.lifecycle_status, job.error_code) == ("failed", "TIMEOUT")
    assert cleaned.is_set()


def test_a_plain_handler_is_left_behind_at_its_deadline(world: World, gate: threading.Event) -> None:
    """TR-8. A thread cannot be stopped; what it gives later is not taken."""
    late = threading.Event()

    def slow(ctx: JobContext[Ask]) -> Answer:
        gate.wait()
        late.set()
        return Answer(value="late")

    register(world, slow)
    job = run(world)
    assert (job.lifecycle_status, job.error_code) == ("failed", "TIMEOUT")
    gate.set()
    assert late.wait(20)

    assert world.job(job.id) == job
    assert world.output(job.id) is None


def test_a_handler_that_swallows_the_cancellation_is_left_behind(world: World) -> None:
    """TR-8. Its slot is free, its result is not taken."""
    swallowed = asyncio.Event

    async def stubborn(ctx: JobContext[Ask]) -> Answer:
        end = swallowed()
        for _ in range(3):
            try:
                await end.wait()
            except asyncio.CancelledError:
                continue
        return Answer(value="late")

    register(world, stubborn)
    job = run(world)

    assert (job.lifecycle_status, job.error_code) == ("failed", "TIMEOUT")
    assert world.output(job.id) is None


def test_a_handler_that_answers_its_cancellation_with_a_result_is_too_late(world: World) -> None:
    """The engine's word stands: the time was up."""

    async def quick_witted(ctx: JobContext[Ask]) -> Answer:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return Answer(value="late")
        return Answer()

    register(world, quick_witted)
    job = run(world)

    assert (job.lifecycle_status, job.error_code) == ("failed", "TIMEOUT")


def test_a_plain_handler_may_look_whether_it_should_stop(world: World) -> None:
    """`check_cancelled` raises what `except Exception` does not swallow."""
    stopped = threading.Event()

    def looks(ctx: JobContext[Ask]) -> Answer:
        try:
            while True:
                try:
                    ctx.check_cancelled()
                except Exception:
                    continue
                threading.Event().wait(0.005)
        finally:
            stopped.set()

    register(world, looks)
    job = run(world)

    assert job.error_code == "TIMEOUT"
    assert stopped.wait(20)


@pytest.mark.parametrize(("strategy", "attempts", "status"), [("retry", 2, "succeeded"), ("fail", 1, "failed")])
def test_the_definition_says_what_follows(world: World, strategy: Any, attempts: int, status: str) -> None:
    """Each attempt has its own time."""

    async def second_time(ctx: JobContext[Ask]) -> Answer:
        if ctx.attempt_no == 1:
            await asyncio.Event().wait()
        return Answer()

    register(world, second_time, abort_strategy=strategy, max_retries=3, backoff_ms=1)
    job = run(world)

    assert (job.lifecycle_status, job.attempt_count) == (status, attempts)


def test_a_call_is_given_the_time_that_is_left_and_made_once(world: World) -> None:
    """WL-10. One request, ended with the attempt; the call's outcome stays open."""
    silence = Silence()
    world.provider.say(silence)

    async def asks(ctx: JobContext[Ask]) -> Answer:
        return Answer(value=await ctx.generate("Hello?"))

    register(world, asks, on_unknown_outcome="fail", max_retries=3)
    job = run(world)

    assert (job.lifecycle_status, job.outcome, job.error_code) == ("failed", "indeterminate", "TIMEOUT")
    assert len(world.provider.requests) == 1
    assert 0 < world.provider.timeouts[0] <= 0.06
    assert [call["status"] for call in world.calls(job.id)] == ["intent"]


def test_a_call_from_a_plain_handler_ends_with_its_attempt(world: World) -> None:
    ended: list[str] = []
    silence = Silence()
    world.provider.say(silence)

    def asks(ctx: JobContext[Ask]) -> Answer:
        try:
            return Answer(value=ctx.generate_sync("Hello?"))
        except BaseException as error:
            ended.append(type(error).__name__)
            raise

    register(world, asks)
    job = run(world)

    assert job.error_code == "TIMEOUT"
    eventually(lambda: ended)


def test_a_call_of_a_handler_left_behind_is_refused_and_stops_no_later_attempt(
    world: World, gate: threading.Event
) -> None:
    """TR-8. It asks under the lease of its own attempt, which is over; the next one has another."""
    refused: list[str] = []
    asked = threading.Event()

    def asks_late(ctx: JobContext[Ask]) -> Answer:
        if ctx.attempt_no > 1:
            gate.set()
            assert asked.wait(20)
            return Answer(value="in time")
        gate.wait()
        try:
            return Answer(value=ctx.generate_sync("Hello?"))
        except BaseException as error:
            refused.append(type(error).__name__)
            raise
        finally:
            asked.set()

    register(world, asks_late, abort_strategy="retry", max_retries=3, backoff_ms=1)
    object.__setattr__(world.app.registry.get("timed").execution, "timeout_ms", 700)
    job = run(world)

    assert refused == ["Aborted"]
    assert job.lifecycle_status == "succeeded"
    assert world.output(job.id) == {"value": "in time"}


def test_time_in_the_queue_or_in_the_commit_is_not_counted(world: World) -> None:
    """Design 10: per attempt, over EXECUTE."""

    @world.app.projector("slow_rows")
    def project(session: Any, job: Any, output: Any) -> list[Any]:
        threading.Event().wait(0.15)
        return []

    async def quick(ctx: JobContext[Ask]) -> Answer:
        return Answer()

    register(world, quick, projector="slow_rows")
    job = world.create(job_type="timed", payload={})
    world.advance(3_600)
    world.dispatch()
    world.work()

    assert world.job(job.id).lifecycle_status == "succeeded"


def test_others_go_on_beside_a_handler_that_burns_the_processor(world: World, gate: threading.Event) -> None:
    """TR-8, WL-2. A plain handler has a thread of its own."""
    def busy(ctx: JobContext[Ask]) -> Answer:
        while not gate.is_set():
            sum(range(1_000))
        return Answer()

    register(world, busy)
    slow, good = world.create(job_type="timed", payload={}), world.create(payload={"sleep_ms": 5})
    world.dispatch()
    with world.working():
        eventually(lambda: world.job(good.id).is_final and world.job(slow.id).is_final)

    assert world.job(good.id).lifecycle_status == "succeeded"
    assert world.job(slow.id).error_code == "TIMEOUT"
