"""Attempts in a real worker: retries, parking, what a handler may do and what it may not."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any

import pytest

from engine import JobContext
from engine.errors import OutputInvalid, ProgressInvalid, ProviderError, ProviderRateLimited
from engine.pipeline.work import Abort, Aborted
from registry.definition import JobDefinition
from registry.prompt import PromptTemplate
from tests.engine.pipeline.samples import Answer, Ask, Number
from tests.support.wait import eventually
from tests.support.world import World

MakeWorld = Callable[..., World]

#: without a pause between attempts
AT_ONCE = {"backoff_ms": 1}


def run(world: World, job_type: str, **wanted: Any) -> Any:
    """Create a job, let it be worked on once, and return it."""
    job = world.create(job_type=job_type, payload=wanted.pop("payload", {"value": 1}), **wanted)
    world.dispatch()
    world.work()
    return world.job(job.id)


class TestRetries:
    """One budget, counted at the claim."""

    def test_an_attempt_that_fails_is_followed_by_another_in_place(self, world: World) -> None:
        """TR-6. Same worker, same delivery, a new epoch and a counted attempt each."""
        seen: list[int] = []

        @world.app.job("shaky", input=Ask, output=Answer, **AT_ONCE)
        async def shaky(ctx: JobContext[Ask]) -> Answer:
            seen.append(ctx.attempt_no)
            if ctx.attempt_no < 3:
                raise ProviderError("500")
            return Answer(value="done")

        job = run(world, "shaky")

        assert seen == [1, 2, 3]
        assert (job.lifecycle_status, job.attempt_count, job.epoch) == ("succeeded", 3, 3)
        assert [(c.attempt_no, c.start_reason, c.error_code) for c in world.claims(job.id)] == [
            (1, "first", "PROVIDER_ERROR"), (2, "retry", "PROVIDER_ERROR"), (3, "retry", None),
        ]  # fmt: skip
        assert len(world.deliveries(job.id)) == 1

    def test_a_handler_that_always_fails_is_called_exactly_retries_plus_one_times(self, world: World) -> None:
        """TR-6. Also with a crash in between."""
        calls: list[int] = []

        @world.app.job("hopeless", input=Ask, output=Answer, max_retries=2, **AT_ONCE)
        async def hopeless(ctx: JobContext[Ask]) -> Answer:
            calls.append(ctx.attempt_no)
            raise ProviderError("500")

        job = run(world, "hopeless")
        crashed = world.create(job_type="hopeless", payload={})
        world.claim(crashed.id)
        world.advance(61)
        world.upkeep()
        world.dispatch()
        world.work()

        assert calls == [1, 2, 3, 2, 3]
        assert (job.lifecycle_status, job.outcome, job.error_code) == ("failed", "error", "PROVIDER_ERROR")
        assert world.job(crashed.id).attempt_count == 3
        assert [e.event_type for e in world.endings(job.id)] == ["ai.job.failed"]

    def test_a_long_backoff_frees_the_slot(self, world: World) -> None:
        """X31. The job is parked, its delivery written; it comes again when it is due and not before."""

        @world.app.job("patient", input=Ask, output=Answer, backoff_ms=20_000)
        async def patient(ctx: JobContext[Ask]) -> Answer:
            if ctx.attempt_no == 1:
                raise ProviderError("500")
            return Answer()

        job = run(world, "patient")
        assert (job.lifecycle_status, job.wait_kind, job.locked_by) == ("running", "retry", None)
        assert [e.delivery_no for e in world.deliveries(job.id)] == [1, 2]
        world.advance(15)
        world.dispatch()
        assert world.depth() == 0
        world.advance(6)
        world.dispatch()
        world.work()

        job = world.job(job.id)
        assert (job.lifecycle_status, job.attempt_count) == ("succeeded", 2)

    def test_a_rate_limit_parks_without_using_an_attempt(self, world: World) -> None:
        """WL-12. No earlier than asked, the slot is free meanwhile, and the budget is untouched."""
        calls: list[int] = []

        @world.app.job("limited", input=Ask, output=Answer, max_retries=0)
        async def limited(ctx: JobContext[Ask]) -> Answer:
            calls.append(ctx.attempt_no)
            if len(calls) < 4:
                raise ProviderRateLimited(retry_after_ms=30_000)
            return Answer()

        job = run(world, "limited")
        for _ in range(3):
            assert world.job(job.id).wait_kind == "rate"
            world.advance(28)
            world.dispatch()
            world.work()
            assert world.job(job.id).wait_kind == "rate"
            world.advance(3)
            world.dispatch()
            world.work()

        job = world.job(job.id)
        assert (job.lifecycle_status, job.attempt_count, job.epoch) == ("succeeded", 1, 4)
        assert calls == [1, 1, 1, 1]

    def test_the_next_attempt_is_told_what_was_wrong(self, make_world: MakeWorld) -> None:
        """X28. In place, and after a park in another worker too; never the output itself."""
        # Up to a fifth is taken off a wait: the first is below the limit, and the second, twice as long, above it.
        world = make_world(worker={"park_from_ms": 50})
        told: list[tuple[str, ...]] = []

        @world.app.job("learning", input=Ask, output=Number, max_retries=3, backoff_ms=40)
        async def learning(ctx: JobContext[Ask]) -> dict[str, Any]:
            told.append(ctx.previous_errors)
            return {"number": "my secret diary"} if len(told) < 3 else {"number": 7}

        job = run(world, "learning")
        assert (len(told), job.wait_kind) == (2, "retry")
        for _ in range(3):
            world.advance(30)
            world.dispatch()
            world.work()

        assert told[0] == ()
        assert len(told) == 3
        for errors in told[1:]:
            assert len(errors) == 1
            assert errors[0].startswith("number: ")
            assert "diary" not in errors[0]
        assert world.output(job.id) == {"number": 7}

    def test_the_default_prompt_carries_the_errors_of_the_attempt_before(self, world: World) -> None:
        """X28. For a definition without a handler."""
        world.provider.say({"number": "seven"}, {"number": 7})
        template = PromptTemplate("1", "Be brief.", "Say {{value}}.")
        world.app.register(
            JobDefinition.simple("asked", input=Ask, output=Number, prompt=template, backoff_ms=1)
        )

        job = run(world, "asked", payload={"value": "seven"})

        assert world.output(job.id) == {"number": 7}
        first, second = world.provider.requests
        assert [(m.role, m.content) for m in first.messages] == [("system", "Be brief."), ("user", "Say seven.")]
        assert "not usable" in second.messages[-1].content

    def test_an_internal_error_is_tried_once_more_in_a_jobs_life(self, world: World) -> None:
        """X25. Also when the two are in different claims."""
        calls: list[int] = []

        @world.app.job("buggy", input=Ask, output=Answer, max_retries=5, backoff_ms=20_000)
        async def buggy(ctx: JobContext[Ask]) -> Answer:
            calls.append(ctx.attempt_no)
            raise KeyError("my secret diary")

        job = run(world, "buggy")
        world.advance(30)
        world.dispatch()
        world.work()

        job = world.job(job.id)
        assert calls == [1, 2]
        assert (job.lifecycle_status, job.error_code) == ("failed", "INTERNAL_HANDLER")
        assert "diary" not in f"{job.internal_error_message} {job.public_error_message}"
        assert "KeyError" in str(job.internal_error_message)


BLOWS: dict[str, Callable[[], BaseException]] = {
    "SystemExit": lambda: SystemExit(3),
    "KeyboardInterrupt": KeyboardInterrupt,
    "GeneratorExit": GeneratorExit,
    "StopIteration": StopIteration,
    "StopAsyncIteration": StopAsyncIteration,
    "CancelledError": asyncio.CancelledError,
    "RecursionError": RecursionError,
    "MemoryError": MemoryError,
    "a BaseException of its own": lambda: type("Weird", (BaseException,), {})("x"),
    # The engine's own signal, where nothing has stopped the attempt.
    **{f"Aborted, {reason}": partial(Aborted, reason) for reason in Abort},
}


class TestHandlers:
    """Async or plain, well-behaved or not."""

    @pytest.mark.parametrize("kind", ["async", "plain", "object", "plain returning a coroutine"])
    def test_every_kind_of_handler_runs(self, world: World, kind: str) -> None:
        async def run_async(ctx: JobContext[Ask]) -> Answer:
            return Answer(value=[ctx.input.value, ctx.job.job_type])

        def run_plain(ctx: JobContext[Ask]) -> dict[str, Any]:
            assert threading.current_thread() is not threading.main_thread()
            return {"value": [ctx.input.value, ctx.job.job_type]}

        class Runner:
            async def __call__(self, ctx: JobContext[Ask]) -> Answer:
                return await run_async(ctx)

        handlers: dict[str, Any] = {
            "async": run_async, "plain": run_plain, "object": Runner(),
            "plain returning a coroutine": lambda ctx: run_async(ctx),
        }  # fmt: skip
        world.app.job("any_kind", input=Ask, output=Answer)(handlers[kind])

        job = run(world, "any_kind", payload={"value": "é"})

        assert world.output(job.id) == {"value": ["é", "any_kind"]}

    @pytest.mark.parametrize("blow", BLOWS.values(), ids=BLOWS.keys())
    @pytest.mark.parametrize("kind", ["async", "plain"])
    @pytest.mark.databases("sqlite")
    def test_nothing_a_handler_raises_ends_the_worker(
        self, world: World, database_kind: str, kind: str, blow: Callable[[], BaseException]
    ) -> None:
        """Others go on, the job ends as its own failure, and the lease is not left to run out."""

        async def blow_up(ctx: JobContext[Ask]) -> Answer:
            raise blow()

        def blow_up_plainly(ctx: JobContext[Ask]) -> Answer:
            raise blow()

        world.app.job("bomb", input=Ask, output=Answer, **AT_ONCE)(
            blow_up if kind == "async" else blow_up_plainly
        )
        bomb, good = world.create(job_type="bomb", payload={}), world.create(payload={"sleep_ms": 50})
        world.dispatch()
        world.work()

        job = world.job(bomb.id)
        assert (job.lifecycle_status, job.error_code) == ("failed", "INTERNAL_HANDLER")
        assert [c.start_reason for c in world.claims(job.id)] == ["first", "retry"]
        assert world.job(good.id).lifecycle_status == "succeeded"

    def test_many_jobs_wait_at_once_in_one_process(self, world: World) -> None:
        """Design 3: hundreds of waiting calls on one loop; plain handlers beside them."""
        together = threading.Semaphore(0)
        waiting = asyncio.Event
        gates: list[Any] = []

        @world.app.job("waits", input=Ask, output=Answer)
        async def waits(ctx: JobContext[Ask]) -> Answer:
            gate = waiting()
            gates.append((asyncio.get_running_loop(), gate))
            together.release()
            await gate.wait()
            return Answer(value=ctx.input.value)

        made = world.app.jobs.create_jobs([world.request(job_type="waits", payload={"value": n}) for n in range(150)])
        world.dispatch()
        world.dispatch()
        with world.working(concurrency=150):
            for _ in range(150):
                assert together.acquire(timeout=20)
            for loop, gate in list(gates):
                loop.call_soon_threadsafe(gate.set)
            eventually(lambda: not world.open_jobs())

        assert all(world.output(one.job.id) == {"value": n} for n, one in enumerate(made))

    def test_progress_arrives_and_never_goes_back(self, world: World) -> None:
        """X77. Fenced and throttled; reported from the loop or from a thread."""
        reported, go_on = threading.Event(), threading.Event()

        @world.app.job("steps", input=Ask, output=Answer)
        def steps(ctx: JobContext[Ask]) -> Answer:
            for percent in (10, 55, 30, 1_000 if ctx.input.value else 40):
                ctx.progress(percent, f"at {percent}")
            reported.set()
            assert go_on.wait(20)
            return Answer()

        job = world.create(job_type="steps", payload={})
        world.dispatch()
        with world.working():
            assert reported.wait(20)
            eventually(lambda: world.job(job.id).progress == 55)
            go_on.set()
            eventually(lambda: world.job(job.id).is_final)

        assert world.job(job.id).progress == 100

    @pytest.mark.parametrize("note", ["a\x00b", "a\ud800b"], ids=["NUL", "a lone surrogate"])
    def test_a_note_that_no_database_takes_is_told_without_it_and_stops_nobodys_progress(
        self, world: World, note: str
    ) -> None:
        told, go_on = threading.Event(), threading.Event()

        @world.app.job("odd_notes", input=Ask, output=Answer)
        def odd_notes(ctx: JobContext[Ask]) -> Answer:
            ctx.progress(10, note)
            told.set()
            assert go_on.wait(20)
            return Answer()

        @world.app.job("plain_notes", input=Ask, output=Answer)
        def plain_notes(ctx: JobContext[Ask]) -> Answer:
            assert told.wait(20)
            ctx.progress(50, "half")
            assert go_on.wait(20)
            return Answer()

        odd, plain = (world.create(job_type=each, payload={}) for each in ("odd_notes", "plain_notes"))
        world.dispatch()
        with world.working():
            eventually(lambda: world.job(odd.id).progress == 10 and world.job(plain.id).progress == 50)
            assert world.job(odd.id).progress_note in ("ab", "a?b")
            go_on.set()
            eventually(lambda: not world.open_jobs())

    @pytest.mark.databases("sqlite")
    def test_progress_that_is_no_number_says_so_and_is_a_failure_of_the_handler(
        self, world: World, database_kind: str
    ) -> None:

        @world.app.job("unsteady", input=Ask, output=Answer, **AT_ONCE)
        async def unsteady(ctx: JobContext[Ask]) -> Answer:
            ctx.progress(float("nan"))
            return Answer()

        job = run(world, "unsteady")

        assert (job.lifecycle_status, job.error_code, job.attempt_count) == ("failed", "INTERNAL_PROGRESS", 2)
        assert job.internal_error_message == "ProgressInvalid: progress is a finite number from 0 to 100, not nan"

    def test_output_checks_see_what_the_handler_gives(self, world: World) -> None:
        def fails(ctx: JobContext[Ask]) -> Any:
            raise OutputInvalid(errors=["not good enough"])

        world.app.job("strict", input=Ask, output=Answer, max_retries=0)(fails)

        job = run(world, "strict")

        assert (job.lifecycle_status, job.error_code) == ("failed", "VALIDATION_OUTPUT")
        assert [c.errors for c in world.claims(job.id)] == ['["not good enough"]']


@pytest.mark.databases("sqlite")
def test_deep_recursion_in_a_handler_is_its_own_failure(world: World, database_kind: str) -> None:

    @world.app.job("deep", input=Ask, output=Answer, max_retries=0)
    def deep(ctx: JobContext[Ask]) -> Answer:
        def down(n: int) -> int:
            return down(n + 1)

        return Answer(value=down(0))

    job = run(world, "deep")

    assert (job.lifecycle_status, job.error_code) == ("failed", "INTERNAL_HANDLER")
    assert sys.getrecursionlimit() >= 1_000


# -- what a report of progress may hold ----------------------------------------------------------------


def context(progress: Callable[[int, str | None], None]) -> JobContext[Ask]:
    nothing: Any = None
    return JobContext(nothing, gateway=nothing, commits=nothing, progress=progress, loop=nothing)


@pytest.mark.parametrize(
    ("percent", "named"),
    [
        (float("nan"), "nan"), (float("inf"), "inf"), (float("-inf"), "-inf"), (Decimal("NaN"), "a Decimal"),
        (True, "a bool"), ("my-secret-diary", "a str"), ("50", "a str"), (b"50", "a bytes"), (None, "a NoneType"),
        ([50], "a list"), (1j, "a complex"),
    ],
)  # fmt: skip
def test_progress_without_a_number_is_refused_and_repeats_no_content(percent: Any, named: str) -> None:
    reported: list[Any] = []

    with pytest.raises(ProgressInvalid, match=f"to 100, not {named}$"):
        context(lambda *report: reported.append(report)).progress(percent)

    assert reported == []


@pytest.mark.parametrize("note", [b"half", 50, ["half"]])
def test_a_note_that_is_no_text_is_refused(note: Any) -> None:
    with pytest.raises(ProgressInvalid, match="note is a text"):
        context(lambda percent, note: None).progress(50, note)


def test_any_finite_number_is_progress_and_is_kept_within_its_bounds() -> None:
    reported: list[int] = []
    ctx = context(lambda percent, note: reported.append(percent))

    wanted: list[Any] = [50, 50.9, Decimal("50.9"), Fraction(101, 2), -1, -1e300, 101, 1e300, 10**400]
    for percent in wanted:
        ctx.progress(percent)

    assert reported == [50, 50, 50, 50, 0, 0, 100, 100, 100]
