"""Promise 7: what a caller wrote, and who the caller is, stands in the database and nowhere else."""

from __future__ import annotations

import io
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from engine.observe import logs
from engine.observe.facts import log_fact
from engine.pipeline.context import JobContext
from tests.engine.pipeline.samples import Answer, Ask, Number
from tests.support.databases import Databases
from tests.support.migrated import MIGRATED, migrate
from tests.support.peek import everything
from tests.support.world import World

SECRET = "xyzzy-of-a-user"


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """Everything that is logged, down to the last detail, as a daemon would print it."""
    root = logging.getLogger()
    before = root.handlers[:], root.level
    stream = io.StringIO()
    logs.set_up(format="json", level=logging.DEBUG, stream=stream)
    yield stream
    root.handlers[:], root.level = before


@pytest.fixture
def world(databases: Callable[[str], Databases], redis_url: str) -> Iterator[World]:
    pool = databases("sqlite")
    url = pool.prepared(MIGRATED, migrate)
    with World(url, redis_url) as world:
        yield world
    pool.give_back(MIGRATED, url)


def test_no_input_output_key_or_user_reaches_redis_or_a_log(
    world: World, redis_client: redis.Redis, log: io.StringIO
) -> None:
    """Known failure TR-12. Looked at while tickets wait, while jobs run, and when they have ended in every way."""
    seen: list[bytes] = []
    world.app.telemetry.listen(log_fact)

    def look() -> None:
        seen.append(everything(redis_client))

    @world.app.job("answers", input=Ask, output=Answer)
    def answers(ctx: JobContext[Ask]) -> Answer:
        look()
        ctx.progress(50, SECRET)
        return Answer(value=ctx.input.value)

    @world.app.job("stumbles", input=Ask, output=Answer, max_retries=1, backoff_ms=1)
    def stumbles(ctx: JobContext[Ask]) -> Answer:
        raise RuntimeError(ctx.input.value)

    @world.app.job("misfits", input=Ask, output=Number, max_retries=0)
    def misfits(ctx: JobContext[Ask]) -> Any:
        return {"number": SECRET}

    personal = {"user_id": SECRET, "idempotency_key": SECRET, "target_id": SECRET, "payload": {"value": SECRET}}
    jobs = [world.create(job_type=name, **personal) for name in ("answers", "stumbles", "misfits", "synthetic")]
    world.dispatch()
    look()
    world.app.jobs.request_cancel(jobs[-1].id)
    world.settle()
    look()

    assert [world.job(job.id).lifecycle_status for job in jobs] == ["succeeded", "failed", "failed", "cancelled"]
    assert any(jobs[0].id.hex.encode() in text for text in seen), "nothing was looked at"
    assert jobs[0].id.hex in log.getvalue().replace("-", "")
    assert not [text for text in seen if SECRET.encode() in text]
    assert SECRET not in log.getvalue()
