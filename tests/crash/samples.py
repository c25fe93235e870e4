"""A job type that goes every step of the path: it asks the provider once and leaves one artifact."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pydantic import BaseModel
from sqlalchemy.orm import Session

from engine.pipeline.context import JobContext
from engine.worker.assembly import make_dispatcher
from projectors import ArtifactRef
from registry.job import JobView
from tests.support.world import World

ASKED = "asked"

#: Settings under which healing is not waited for.
QUICK: dict[str, Any] = {
    "upkeep": {"interval_ms": 200, "redelivery_ms": 1_000},
    "dispatcher": {"poll_ms": 100, "breaker_limit_ms": 300, "claim_ttl_ms": 1_000},
}


class Question(BaseModel):
    text: str = "why?"


class Answer(BaseModel):
    text: str


async def ask(ctx: JobContext[Question]) -> Any:
    return await ctx.generate(ctx.input.text, schema=Answer)


def project(_session: Session, job: JobView, _output: Answer) -> list[ArtifactRef]:
    return [ArtifactRef("answer", job.id.hex)]


def teach(world: World, **policies: Any) -> World:
    """Let the world know the type, and its provider the answer."""
    world.provider.say({"text": "because"})
    world.app.projector("answers")(project)
    world.app.job(ASKED, input=Question, output=Answer, projector="answers", **policies)(ask)
    return world


@contextmanager
def daemons(world: World) -> Iterator[None]:
    """A dispatcher with upkeep, and a worker, beside the test."""
    dispatcher = make_dispatcher(world.app)
    dispatcher.start()
    try:
        with world.working():
            yield
    finally:
        dispatcher.stop()
        assert dispatcher.join(20)


def is_settled(world: World) -> bool:
    """Every job has ended, and no event is on its way."""
    events = world.rows("outbox_event")
    return not world.open_jobs() and not any(e["status"] in ("pending", "processing") for e in events)


def assert_done_once(world: World, job: JobView, *, calls: int = 1) -> None:
    """The job succeeded in one attempt, and everything about it is there exactly once."""
    found = world.job(job.id)
    story = [(c.epoch, c.start_reason, c.error_code) for c in world.claims(job.id)]
    assert (found.lifecycle_status, found.attempt_count) == ("succeeded", 1), (found, story)
    assert len(world.artifacts(job.id)) == 1
    assert world.output(job.id) == {"text": "because"}
    assert [event.event_type for event in world.endings(job.id)] == ["ai.job.completed"]
    assert {event.status for event in world.events(job.id)} <= {"published", "obsolete"}
    asked = [r for r in world.provider.requests if r.operation_id.startswith(job.id.hex)]
    assert len(asked) == calls
