"""What handler and projector are told about the claim they work under."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from sqlalchemy.orm import Session

from engine.errors import ProviderUnavailable
from engine.pipeline.context import JobContext
from projectors import ArtifactRef
from registry.job import JobView
from tests.support.world import World


class Nothing(BaseModel):
    pass


def test_attempt_in_place_is_shown_the_job_under_its_own_claim(world: World) -> None:
    handled: list[tuple[int, int]] = []
    projected: list[tuple[int, int]] = []

    async def fail_once(ctx: JobContext[Nothing]) -> Any:
        handled.append((ctx.job.epoch, ctx.job.attempt_count))
        if len(handled) == 1:
            raise ProviderUnavailable
        return Nothing()

    def project(_session: Session, job: JobView, _output: Nothing) -> list[ArtifactRef]:
        projected.append((job.epoch, job.attempt_count))
        return []

    world.app.projector("seen")(project)
    world.app.job("retried", input=Nothing, output=Nothing, projector="seen", backoff_ms=1)(fail_once)
    job = world.create(job_type="retried", payload={})
    world.dispatch()
    world.work()

    assert handled == [(1, 1), (2, 2)]
    assert projected == [(2, 2)]
    assert world.job(job.id).epoch == 2
