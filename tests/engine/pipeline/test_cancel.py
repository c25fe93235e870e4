"""Cancel against completion: whoever commits first wins, and everybody is told the same (WL-8)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from engine import JobContext
from engine.errors import JobNotCancellableError, ProviderError
from projectors import ArtifactRef
from tests.engine.pipeline.samples import Answer, Ask
from tests.support.crowd import at_once
from tests.support.faults import after_statement
from tests.support.wait import eventually
from tests.support.world import World

MakeWorld = Callable[..., World]


class Held:
    """A handler that waits until it is let go."""

    def __init__(self, world: World, **policies: Any) -> None:
        self.begun, self.go_on = threading.Event(), threading.Event()
        world.app.job("held", input=Ask, output=Answer, **policies)(self.run)

    def run(self, ctx: JobContext[Ask]) -> Answer:
        self.begun.set()
        assert self.go_on.wait(20)
        return Answer(value="done")


@pytest.fixture
def artifact(world: World) -> None:
    @world.app.projector("one_row")
    def project(session: Any, job: Any, output: Any) -> list[ArtifactRef]:
        return [ArtifactRef("row", job.id.hex)]


def test_a_running_job_stops_at_the_next_watch(world: World) -> None:
    """X36. Redis hints, the heartbeat reads the column, the handler is aborted, the engine writes the end."""
    begun = threading.Event()

    @world.app.job("endless", input=Ask, output=Answer)
    async def endless(ctx: JobContext[Ask]) -> Answer:
        begun.set()
        await asyncio.Event().wait()
        return Answer()

    job = world.create(job_type="endless", payload={})
    world.dispatch()
    with world.working():
        assert begun.wait(20)
        world.app.jobs.request_cancel(job.id)
        eventually(lambda: world.job(job.id).is_final, timeout=8)

    job = world.job(job.id)
    assert (job.lifecycle_status, job.outcome, job.error_code) == ("cancelled", "cancelled", None)
    assert [e.event_type for e in world.endings(job.id)] == ["ai.job.cancelled"]
    assert world.depth() == 0


@pytest.mark.usefixtures("artifact")
@pytest.mark.parametrize("projector", [None, "one_row"])
def test_a_result_that_comes_after_the_cancel_is_not_stored(world: World, projector: str | None) -> None:
    """X37, WL-8. The cancel column is part of the final WHERE."""
    held = Held(world, projector=projector)
    job = world.create(job_type="held", payload={})
    world.dispatch()
    with world.working():
        assert held.begun.wait(20)
        # past the hints: only the column says so
        world.run(lambda conn: world.app.lifecycle.request_cancel(conn, job.id))
        held.go_on.set()
        eventually(lambda: world.job(job.id).is_final)

    assert world.job(job.id).lifecycle_status == "cancelled"
    assert world.output(job.id) is None
    assert world.artifacts(job.id) == []
    assert len(world.endings(job.id)) == 1


def test_a_failure_that_comes_after_the_cancel_is_a_cancel(world: World) -> None:
    begun, go_on = threading.Event(), threading.Event()

    @world.app.job("failing", input=Ask, output=Answer, max_retries=0)
    def failing(ctx: JobContext[Ask]) -> Answer:
        begun.set()
        assert go_on.wait(20)
        raise ProviderError("500")

    job = world.create(job_type="failing", payload={})
    world.dispatch()
    with world.working():
        assert begun.wait(20)
        world.run(lambda conn: world.app.lifecycle.request_cancel(conn, job.id))
        go_on.set()
        eventually(lambda: world.job(job.id).is_final)

    assert world.job(job.id).lifecycle_status == "cancelled"
    assert world.job(job.id).error_code is None


@pytest.mark.parametrize("backoff_ms", [60_000, 4_000])
def test_a_job_between_two_attempts_is_cancelled_at_once(world: World, backoff_ms: int) -> None:
    """Parked or sleeping in place: nobody waits for the backoff to end."""

    @world.app.job("between", input=Ask, output=Answer, backoff_ms=backoff_ms)
    async def between(ctx: JobContext[Ask]) -> Answer:
        raise ProviderError("500")

    job = world.create(job_type="between", payload={})
    world.dispatch()
    with world.working():
        eventually(lambda: world.count("attempt.failed"))
        if backoff_ms >= 5_000:
            eventually(lambda: world.job(job.id).wait_kind)
        world.app.jobs.request_cancel(job.id)
        eventually(lambda: world.job(job.id).is_final, timeout=8)

    assert world.job(job.id).lifecycle_status == "cancelled"
    assert len(world.claims(job.id)) == 1


def test_a_job_cancelled_before_its_claim_never_starts(world: World) -> None:
    """X38, WL-9. Its delivery is a quiet no-op."""
    held = Held(world)
    job = world.create(job_type="held", payload={})
    world.dispatch()
    world.app.jobs.request_cancel(job.id)
    world.work()

    assert not held.begun.is_set()
    assert world.claims(job.id) == []
    assert world.depth() == 0


def test_a_job_that_was_asked_before_its_takeover_is_cancelled_by_the_next_worker(world: World) -> None:
    held = Held(world)
    lease = world.claimed(job_type="held", payload={})
    world.app.jobs.request_cancel(lease.job_id)
    world.dispatch()
    world.advance(61)
    world.work()

    assert not held.begun.is_set()
    assert world.job(lease.job_id).lifecycle_status == "cancelled"


@pytest.mark.usefixtures("artifact")
def test_cancel_and_commit_in_both_orders_always_agree(
    world: World, database_kind: str
) -> None:
    """WL-8. Raced from threads: one final state, an answer that fits it, artifacts only where it succeeded."""
    world.app.job("raced", input=Ask, output=Answer, projector="one_row")(lambda ctx: Answer())
    rounds = 80 if database_kind == "sqlite" else 60
    made = [world.create(job_type="raced", payload={}) for _ in range(rounds)]
    world.dispatch()
    told: dict[Any, str] = {}

    def cancel_all() -> None:
        for job in made:
            try:
                told[job.id] = world.app.jobs.request_cancel(job.id).lifecycle_status
            except JobNotCancellableError:
                told[job.id] = "too late"

    answers = at_once([cancel_all, world.work])

    assert [a for a in answers if isinstance(a, BaseException)] == []
    world.settle()
    for job in made:
        status = world.job(job.id).lifecycle_status
        assert status in {"cancelled": ["cancelled"], "too late": ["succeeded"], "running": ["cancelled"]}[told[job.id]]
        assert len(world.endings(job.id)) == 1
        assert bool(world.artifacts(job.id)) is bool(world.output(job.id) is not None) is (status == "succeeded")


@pytest.mark.usefixtures("artifact")
@pytest.mark.parametrize("first", ["cancel", "commit"])
@pytest.mark.databases("mariadb", "postgresql")
def test_the_one_whose_statement_comes_first_wins(
    world: World, make_world: MakeWorld, database_kind: str, first: str
) -> None:
    """WL-8. Forced into both orders on the row itself."""
    held = Held(world, projector="one_row")
    other = make_world()
    job = world.create(job_type="held", payload={})
    world.dispatch()
    told: list[str] = []

    def cancel() -> None:
        try:
            told.append(other.app.jobs.request_cancel(job.id).lifecycle_status)
        except JobNotCancellableError:
            told.append("too late")

    rival = threading.Thread(target=cancel)
    with world.working():
        assert held.begun.wait(20)
        if first == "cancel":
            cancel()
            held.go_on.set()
        else:
            # The cancel begins while the final transaction holds the row.
            with after_statement(world.engine, "finished_at=", rival.start):
                held.go_on.set()
                eventually(lambda: world.job(job.id).is_final)
            rival.join(20)
        eventually(lambda: world.job(job.id).is_final)

    expected = ("cancelled", "running") if first == "cancel" else ("succeeded", "too late")
    assert (world.job(job.id).lifecycle_status, *told) == expected
    assert len(world.endings(job.id)) == 1
    assert bool(world.artifacts(job.id)) is (first == "commit")
