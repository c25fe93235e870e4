"""A job's work belongs to the trace of its creation, through outbox, Redis and worker."""

from __future__ import annotations

from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags
from pydantic import BaseModel

from engine import AiJobApp, CreateJobInput, JobContext, Settings
from engine.migrations import runner
from engine.worker.assembly import make_outbox_dispatcher, make_worker

TRACE_ID = 0x0AF7651916CD43DD8448EB211C80319C


class Nothing(BaseModel):
    pass


class Seen(BaseModel):
    trace_id: str


def _app(url: str) -> AiJobApp:
    app = AiJobApp(settings=Settings(database_url=url, redis_url="fakeredis://tracing"))

    @app.job("traced", input=Nothing, output=Seen)
    async def traced(ctx: JobContext[Nothing]) -> Seen:
        return Seen(trace_id=f"{trace.get_current_span().get_span_context().trace_id:032x}")

    runner.upgrade(app.database)
    return app


def _run(app: AiJobApp) -> object:
    made = app.jobs.create_job(
        CreateJobInput(user_id="u", job_type="traced", target_type="t", target_id="1", payload={})
    )
    make_outbox_dispatcher(app).run_once()
    make_worker(app, ["ai-background"]).run(burst=True)
    return app.jobs.output(made.job.id)


def test_handler_runs_in_the_trace_of_the_creator(sqlite_url: str) -> None:
    app = _app(sqlite_url)
    creator = SpanContext(TRACE_ID, 0xB7AD6B7169203331, is_remote=False, trace_flags=TraceFlags(1))
    try:
        with trace.use_span(NonRecordingSpan(creator)):
            made = app.jobs.create_job(
                CreateJobInput(user_id="u", job_type="traced", target_type="t", target_id="1", payload={})
            )
        make_outbox_dispatcher(app).run_once()
        make_worker(app, ["ai-background"]).run(burst=True)

        assert app.jobs.output(made.job.id) == {"trace_id": f"{TRACE_ID:032x}"}
    finally:
        app.close()


def test_job_created_outside_any_trace_belongs_to_none(sqlite_url: str) -> None:
    app = _app(sqlite_url)
    try:
        assert _run(app) == {"trace_id": "0" * 32}
    finally:
        app.close()
