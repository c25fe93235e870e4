"""Every provider call has a row before it is made and an ending after it (promise 5, WL-11)."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from engine import JobContext
from engine.errors import (
    OutputInvalid,
    ProviderError,
    ProviderOutcomeUnknown,
    ProviderRateLimited,
    ProviderTimeout,
    ProviderUnavailable,
)
from engine.lifecycle.lease import Lease
from engine.providers.base import Usage
from engine.usage.repository import Intent, Settlement
from registry.definition import JobDefinition
from registry.prompt import PromptTemplate
from tests.engine.pipeline.samples import Answer, Ask, Number
from tests.support.faults import refusing
from tests.support.provider import Silence
from tests.support.wait import eventually
from tests.support.world import World


def asks(world: World, times: int = 1, **policies: Any) -> None:
    """Register a type that asks its model."""

    @world.app.job("asks", input=Ask, output=Answer, **({"backoff_ms": 1} | policies))
    async def handler(ctx: JobContext[Ask]) -> Answer:
        answers = [await ctx.generate(f"question {n}") for n in range(times)]
        return Answer(value=answers)


def run(world: World) -> Any:
    job = world.create(job_type="asks", payload={})
    world.dispatch()
    world.work()
    return world.job(job.id)


def test_a_call_is_recorded_before_it_is_made_and_settled_after(world: World) -> None:
    """Promise 5. When the first byte leaves, the intent is committed."""
    world.provider.say("hello")
    asks(world)
    seen: list[Any] = []
    world.provider.before = lambda request: seen.extend(world.rows("ai_usage_log"))

    job = run(world)

    assert [(row["status"], row["settled_at"]) for row in seen] == [("intent", None)]
    [call] = world.calls(job.id)
    assert (call["status"], call["input_tokens"], call["output_tokens"]) == ("settled", 3, 5)
    assert (call["model"], call["provider"], call["finish_reason"]) == ("scripted-1", "scripted", "stop")
    assert (call["epoch"], call["call_no"], call["attempt_no"], call["error_code"]) == (1, 1, 1, None)
    assert call["operation_id"] == world.provider.requests[0].operation_id


def test_calls_of_one_attempt_are_counted(world: World) -> None:
    world.provider.say("a", "b", "c")
    asks(world, times=3)

    job = run(world)

    assert [call["call_no"] for call in world.calls(job.id)] == [1, 2, 3]
    assert len({call["operation_id"] for call in world.calls(job.id)}) == 3


def test_a_failed_call_is_recorded_with_its_error_and_what_it_cost(world: World) -> None:
    """WL-10. Every request counts, not every job."""
    paid = OutputInvalid("no", errors=["no"], usage=Usage(input_tokens=9, output_tokens=1))
    world.provider.say(ProviderError("500"), paid, "fine")
    asks(world)

    job = run(world)

    assert job.lifecycle_status == "succeeded"
    assert [(c["epoch"], c["status"], c["error_code"], c["input_tokens"]) for c in world.calls(job.id)] == [
        (1, "failed", "PROVIDER_ERROR", None),
        (2, "failed", "VALIDATION_OUTPUT", 9),
        (3, "settled", None, 3),
    ]


@pytest.mark.parametrize("error", [ProviderOutcomeUnknown(), ProviderTimeout()], ids=lambda e: e.code)
def test_an_unknown_outcome_stays_unknown_and_is_repeated_under_the_same_operation(
    world: World, error: Exception
) -> None:
    """WL-11. "Sent, and no answer": visible for ever, and the provider can recognise the repetition."""
    world.provider.say(error, "again")
    asks(world)

    job = run(world)

    calls = world.calls(job.id)
    assert job.lifecycle_status == "succeeded"
    assert [(c["epoch"], c["status"]) for c in calls] == [(1, "intent"), (2, "settled")]
    assert calls[0]["operation_id"] == calls[1]["operation_id"]
    assert [c.error_code for c in world.claims(job.id)] == [error.code, None]


@pytest.mark.parametrize("error", [ProviderOutcomeUnknown(), ProviderTimeout()], ids=lambda e: e.code)
def test_a_type_may_forbid_the_repetition(world: World, error: Exception) -> None:
    """WL-11, promise 5. It ends indeterminate, after one request."""
    world.provider.say(error)
    asks(world, on_unknown_outcome="fail", max_retries=5)

    job = run(world)

    assert (job.lifecycle_status, job.outcome, job.error_code) == ("failed", "indeterminate", error.code)
    assert len(world.provider.requests) == 1


@pytest.mark.parametrize(
    ("error", "same"),
    [
        (ProviderUnavailable(), True), (ProviderRateLimited(retry_after_ms=0), True),
        (ProviderError("500"), False), (OutputInvalid(), False),
    ],
    ids=lambda v: getattr(v, "code", None),
)  # fmt: skip
def test_an_operation_keeps_its_id_while_it_may_be_the_same_deed(world: World, error: Exception, same: bool) -> None:
    """WL-11. What was answered is over; what was not, or never sent, is the same operation still."""
    world.provider.say(error, "fine")
    asks(world)

    job = run(world)
    if not job.is_final:
        world.dispatch()
        world.work()

    first, second = (call["operation_id"] for call in world.calls(job.id))
    assert (first == second) is same


class TestLostWorkers:
    """The worker dies, or is shut down, in the middle of a call."""

    @pytest.mark.parametrize("allowed", [True, False])
    @pytest.mark.parametrize("how", ["crash", "shutdown"])
    def test_the_next_worker_repeats_the_call_only_where_that_is_allowed(
        self, world: World, how: str, allowed: bool
    ) -> None:
        """Promise 5. A handed-back call is as unknown as a lost one."""
        silence = Silence()
        world.provider.say(silence)
        asks(world, on_unknown_outcome="retry" if allowed else "fail", max_retries=5)
        job = world.create(job_type="asks", payload={})
        world.dispatch()
        if how == "shutdown":
            with world.working():
                assert silence.asked.wait(20)
        else:
            lease = world.claim(job.id)
            intent = Intent(lease, 1, 1, "op", "platform_key", "scripted", None)
            assert world.run(lambda conn: world.app.usage.record(conn, [intent])) == [True]
            world.advance(61)
            world.upkeep()
        world.provider.requests.clear()
        world.provider.say("again")

        world.dispatch()
        world.work()

        job = world.job(job.id)
        if allowed:
            assert job.lifecycle_status == "succeeded"
            assert len(world.provider.requests) == 1
        else:
            assert (job.lifecycle_status, job.outcome) == ("failed", "indeterminate")
            assert job.error_code == "PROVIDER_OUTCOME_UNKNOWN"
            assert world.provider.requests == []
        assert world.calls(job.id)[0]["status"] == "intent"

    def test_a_repeated_call_after_a_shutdown_keeps_its_operation(self, world: World) -> None:
        silence = Silence()
        world.provider.say(silence)
        asks(world)
        job = world.create(job_type="asks", payload={})
        world.dispatch()
        with world.working():
            assert silence.asked.wait(20)
        world.provider.say("again")
        world.dispatch()
        world.work()

        first, second = (call["operation_id"] for call in world.calls(job.id))
        assert first == second
        assert world.job(job.id).attempt_count == 1


class TestFence:
    """A worker that lost its lease records nothing and settles nothing (promise 3)."""

    def test_no_call_is_made_without_a_lease(self, world: World) -> None:
        """WL-1. The intent is refused, so not a byte leaves."""
        begun, go_on = threading.Event(), threading.Event()

        @world.app.job("late", input=Ask, output=Answer)
        def late(ctx: JobContext[Ask]) -> Answer:
            begun.set()
            assert go_on.wait(20)
            return Answer(value=ctx.generate_sync("Hello?"))

        job = world.create(job_type="late", payload={})
        world.dispatch()
        with world.working(concurrency=1):
            assert begun.wait(20)
            world.advance(61)
            world.upkeep()
            go_on.set()
            eventually(lambda: world.count("job.fenced"))

        assert world.provider.requests == []
        assert world.calls(job.id) == []
        assert world.row(job.id)["epoch"] == 2

    def test_an_answer_that_comes_after_the_takeover_settles_nothing(self, world: World) -> None:
        """WL-1. Counted, and the call stays unknown."""
        begun, go_on = threading.Event(), threading.Event()

        async def slow(request: Any) -> None:
            begun.set()
            while not go_on.is_set():
                await asyncio.sleep(0.005)

        asks(world)
        world.provider.say("late answer")
        generate = world.provider.generate

        async def generate_slowly(request: Any, **options: Any) -> Any:
            await slow(request)
            return await generate(request, **options)

        world.provider.generate = generate_slowly  # type: ignore[method-assign]
        job = world.create(job_type="asks", payload={})
        world.dispatch()
        with world.working(concurrency=1):
            assert begun.wait(20)
            world.advance(61)
            world.upkeep()
            go_on.set()
            eventually(lambda: world.count("job.fenced"))

        assert [call["status"] for call in world.calls(job.id)] == ["intent"]
        assert world.count("usage.fenced") == 1
        assert world.output(job.id) is None

    def test_the_repository_itself_refuses(self, world: World) -> None:
        """Every write of usage is fenced by the job's lease."""
        lease = world.claimed()
        stale = Lease(lease.job_id, lease.epoch - 1)
        intents = [Intent(x, 1, 1, "op", "platform_key", "scripted", None) for x in (lease, stale)]
        usage = world.app.usage

        assert world.run(lambda conn: usage.record(conn, intents)) == [True, False]
        world.advance(61)
        world.run(lambda conn: world.app.lifecycle.take_over(conn, lease, look_after_ms=1))
        settled = world.run(lambda conn: usage.settle(conn, [Settlement(lease, 1, 10)]))

        assert settled == [False]
        assert [call["status"] for call in world.calls(lease.job_id)] == ["intent"]


class TestTrouble:
    """PC-1: bookkeeping that fails costs no result."""

    @pytest.mark.parametrize("times", [1, 3])
    def test_a_settlement_that_cannot_be_written_does_not_cost_the_answer(self, world: World, times: int) -> None:
        """PC-1. The answer was paid for: the job succeeds, the provider is asked once, the failure is seen."""
        world.provider.say("hello")
        asks(world)
        with refusing(world.engine, "UPDATE ai_usage_log", times=times) as refused:
            job = run(world)

        assert refused
        assert job.lifecycle_status == "succeeded"
        assert len(world.provider.requests) == 1

    def test_without_its_intent_no_call_is_made(self, world: World) -> None:
        """Promise 5. And the attempt fails as our own, to be tried again."""
        world.provider.say("hello")
        asks(world)
        with refusing(world.engine, "INTO ai_usage_log"):
            job = run(world)

        assert job.lifecycle_status == "succeeded"
        assert job.attempt_count == 2
        assert len(world.provider.requests) == 1

    def test_listeners_that_raise_change_nothing(self, world: World) -> None:
        """PC-1. Event publishing is best effort."""
        world.provider.say("hello")
        asks(world)

        def explode(name: str, ids: Any) -> None:
            raise RuntimeError(name)

        world.app.telemetry.listen(explode)

        assert run(world).lifecycle_status == "succeeded"
        assert len(world.provider.requests) == 1


def test_a_definition_without_a_handler_is_metered_alike(world: World) -> None:
    world.provider.say({"number": 7})
    world.app.register(
        JobDefinition.simple("plain_ask", input=Ask, output=Number, prompt=PromptTemplate("2", "S", "U {{value}}"))
    )
    job = world.create(job_type="plain_ask", payload={"value": [1]})
    world.settle()

    assert world.job(job.id).prompt_version == "2"
    assert [call["status"] for call in world.calls(job.id)] == ["settled"]
    assert world.output(job.id) == {"number": 7}
