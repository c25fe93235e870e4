"""The application that the kit's processes run: job types for each way through a worker.

    crashkit_call ..... asks the provider, writes a business row in a projector
    crashkit_plain .... asks the provider, no projector: its result shares a transaction with others
    crashkit_thread ... a plain ``def`` handler in a thread, with the projector
    crashkit_killer ... kills its worker, every time
    crashkit_new ...... known to processes of the newer version only
"""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any
from uuid import UUID

from pydantic import BaseModel
from sqlalchemy.orm import Session

from engine.app import AiJobApp
from engine.config import (
    AdmissionSettings,
    DispatcherSettings,
    Settings,
    UpkeepSettings,
    WorkerSettings,
)
from engine.crashkit import tables
from engine.crashkit.options import Job, Order
from engine.crashkit.tables import CallBook
from engine.errors import ProviderUnavailable
from engine.intake.commands import CreateJobInput
from engine.pipeline.context import JobContext
from engine.providers.base import GenerateRequest, GenerateResult, Usage
from engine.resources.credentials import Credential
from outbox.base.db import create_engine_for
from outbox.base.points import Point, point
from projectors.protocol import ArtifactRef
from registry.job import JobView
from registry.queues import QueueSpec
from registry.registry import JobDefinitionRegistry

PREFIX = "crashkit_"
ARTIFACT = "crashkit_effect"
#: The kit's types that write a business row.
PROJECTED = frozenset({"crashkit_call", "crashkit_thread", "crashkit_new"})
#: A job may lose this many workers before its attempts are used up; the killer takes others with it.
RETRIES = 10
KILLER_RETRIES = 1


class Task(BaseModel):
    """The input of every job of the kit."""

    text: str
    call_ms: int = 0
    fail_times: int = 0


class Answer(BaseModel):
    """The output of every job of the kit."""

    text: str


class CountingProvider:
    """Answers after a while, and counts every call outside the engine's transactions."""

    name = "crashkit"

    def __init__(self, book: CallBook, *, worker: str, queue: str) -> None:
        self._book = book
        self._worker = worker
        self._queue = queue

    async def generate(
        self, request: GenerateRequest, *, credential: Credential, timeout_s: float
    ) -> GenerateResult:
        """One call: counted, then slow, then answered with the task's text."""
        job_id = UUID(request.operation_id.partition("-")[0])
        await asyncio.to_thread(
            self._book.begin, job_id, self._queue, request.operation_id, self._worker
        )
        point(Point.WORKER_DURING_CALL)
        await asyncio.sleep(request.input["call_ms"] / 1000)
        answer = Answer(text=request.input["text"])
        return GenerateResult(answer.text, answer, Usage(1, 1, "crashkit"), "stop")

    async def aclose(self) -> None:
        """Close the book."""
        await asyncio.to_thread(self._book.close)


async def _call(ctx: JobContext[Task]) -> Any:
    """Ask the provider once."""
    if ctx.attempt_no <= ctx.input.fail_times:
        raise ProviderUnavailable("told to fail")
    return await ctx.generate("Say it.", schema=Answer)


def _call_in_thread(ctx: JobContext[Task]) -> Any:
    """Ask the provider once, from a thread."""
    return ctx.generate_sync("Say it.", schema=Answer)


def _kill(ctx: JobContext[Task]) -> Any:
    """Take the worker down."""
    os.kill(os.getpid(), signal.SIGKILL)
    return Answer(text=ctx.input.text)


def _project(session: Session, job: JobView, _output: Answer) -> list[ArtifactRef]:
    tables.add_effect(session, job.id, job.queue_name, job.epoch)
    return [ArtifactRef(ARTIFACT, job.id.hex)]


def make_app(order: Order) -> AiJobApp:
    """The application of one process. It knows the kit's queue and types, and no others."""
    provider = CountingProvider(
        CallBook(create_engine_for(order.places.calls_url or order.places.database_url, pool_size=2)),
        worker=order.name,
        queue=order.queue,
    )
    settings = _settings(order)
    app = AiJobApp(settings=settings, built_in_types=False, provider=provider)
    app.registry = JobDefinitionRegistry(q for q in settings.queues if q.name == order.queue)
    app.projector(ARTIFACT)(_project)
    _register(app, order)
    return app


def _register(app: AiJobApp, order: Order) -> None:
    def register(job_type: str, handler: Any, **policies: Any) -> None:
        defaults: dict[str, Any] = {"queue": order.queue, "max_retries": RETRIES, "backoff_ms": 50}
        projector = ARTIFACT if job_type in PROJECTED else None
        app.job(job_type, input=Task, output=Answer, projector=projector, **(defaults | policies))(handler)

    register("crashkit_call", _call)
    register("crashkit_plain", _call)
    register("crashkit_thread", _call_in_thread)
    register("crashkit_killer", _kill, max_retries=KILLER_RETRIES)
    if order.knows_new:
        register("crashkit_new", _call)


def _settings(order: Order) -> Settings:
    times = order.times
    queue = QueueSpec(
        order.queue, concurrency=order.slots, lease_ms=times.lease_ms, heartbeat_ms=times.heartbeat_ms
    )
    return Settings(
        database_url=order.places.database_url,
        idle_transaction_ms=times.idle_transaction_ms,
        redis_url=order.places.redis_url,
        redis_prefix=order.places.prefix,
        queues=(queue,),
        dispatcher=DispatcherSettings(
            batch=50, poll_ms=times.poll_ms, claim_ttl_ms=times.claim_ttl_ms, breaker_limit_ms=500,
            early=order.early,
        ),
        upkeep=UpkeepSettings(interval_ms=times.upkeep_ms, redelivery_ms=times.redelivery_ms),
        worker=WorkerSettings(grace_ms=times.grace_ms, db_threads=4),
        admission=AdmissionSettings(),
        openai_api_key=None,
        openai_base_url=None,
        credential_keys=None,
    )


def request(job: Job, queue: str) -> CreateJobInput:
    """What the kit asks the engine for; keys of different stages never meet."""
    return CreateJobInput(
        user_id="crashkit",
        job_type=job.job_type,
        target_type="crashkit",
        target_id=job.key,
        payload=Task(text=job.key, call_ms=job.call_ms, fail_times=job.fail_times),
        idempotency_key=f"{queue}/{job.key}",
    )
