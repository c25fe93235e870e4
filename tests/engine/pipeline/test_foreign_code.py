"""Models, checks, redaction and projectors are the application's code too: what they raise costs their job alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import pytest
from pydantic import BaseModel, model_validator
from sqlalchemy.orm import Session

from engine import ArtifactRef, JobView
from engine.resources.safety import BlockList
from tests.engine.pipeline.test_attempts import BLOWS
from tests.support.world import World

#: Raises what the named blow is, in one of the places, once it is armed.
Step = Callable[[str, str], None]


def _models(step: Step) -> tuple[type[BaseModel], type[BaseModel]]:
    class Given(BaseModel):
        value: str

        @model_validator(mode="after")
        def _blow(self) -> Self:
            step("input", self.value)
            return self

    class Made(BaseModel):
        value: str

        @model_validator(mode="after")
        def _blow(self) -> Self:
            step("output", self.value)
            return self

    return Given, Made


class _Safety(BlockList):
    def __init__(self, step: Step) -> None:
        super().__init__()
        self._step = step

    async def check_output(self, content: Any, *, job_type: str) -> None:
        self._step("safety", content.value)


def _register(world: World, step: Step) -> None:
    given, made = _models(step)

    @world.app.projector("rows")
    def rows(session: Session, job: JobView, output: Any) -> list[ArtifactRef]:
        step("projector", output.value)
        return []

    def redact(output: Any) -> Any:
        step("redaction", output.value)
        return output

    world.app.safety = _Safety(step)
    world.app.job(
        "bombs",
        input=given,
        output=made,
        projector="rows",
        redact_output=redact,
        content_safety=True,
        backoff_ms=1,
    )(lambda ctx: {"value": ctx.input.value})


@pytest.mark.parametrize("place", ["input", "output", "redaction", "safety", "projector"])
@pytest.mark.databases("sqlite")
def test_nothing_that_other_code_of_a_job_raises_ends_the_worker(
    world: World, database_kind: str, place: str
) -> None:
    armed: dict[str, Callable[[], BaseException]] = {}

    def step(here: str, name: str) -> None:
        if here == place and name in armed:
            raise armed[name]()

    _register(world, step)
    jobs = [world.create(job_type="bombs", payload={"value": name}) for name in [*BLOWS, "none"]]
    armed.update(BLOWS)
    world.dispatch()
    world.work()

    *bombed, good = (world.job(job.id) for job in jobs)
    assert {job.lifecycle_status for job in bombed} == {"failed"}
    assert "LEASE_LOST" not in {job.error_code for job in bombed}
    assert good.lifecycle_status == "succeeded"
