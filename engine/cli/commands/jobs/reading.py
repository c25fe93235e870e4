"""``aijobs jobs list|show|explain``: reads the database; works with Redis down and no worker running."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from engine.cli import filters, rendering
from engine.cli.session import Session
from engine.cli.values import identity
from engine.lifecycle import views
from engine.lifecycle.circumstances import span
from engine.lifecycle.documents import document, job_document, plain
from engine.upkeep.inspection import JobRecord
from outbox.base.canonical import parse

JobId = Annotated[str, typer.Argument(metavar="ID")]


@filters.choosing()
def list_(
    ctx: typer.Context,
    chosen: filters.Chosen,
    limit: Annotated[int, typer.Option(min=1, max=views.PAGE_LIMIT, help="Rows at most.")] = 50,
    before: Annotated[
        str | None, typer.Option(metavar="ID", help="Only jobs older than this one: the next page.")
    ] = None,
    count: Annotated[bool, typer.Option("--count", help="Only how many there are, up to 10 000.")] = False,
) -> None:
    """List jobs, newest first."""
    session: Session = ctx.obj
    app = session.database_app
    wanted = chosen.filter(session)
    if count:
        number = app.uow.read(lambda conn: views.count(conn, wanted))
        session.out.show({"count": number}, lambda: session.out.line(str(number)))
        return
    first = None if before is None else identity(before)
    jobs, now = app.uow.read(
        lambda conn: (views.page(conn, wanted, before=first, limit=limit), app.clock.read(conn))
    )

    def text() -> None:
        session.out.table(
            ("STATUS", "ID", "TYPE", "TARGET", "TRIES", "AGE", "ERROR", "WAITS FOR"),
            [
                (job.lifecycle_status.value, job.id, job.job_type, f"{job.target_type}:{job.target_id}",
                 f"{job.attempt_count}/{job.max_attempts}", span(now - job.created_at), job.error_code,
                 rendering.waits_for(job))
                for job in jobs
            ],
        )  # fmt: skip
        if not jobs:
            session.out.say("no jobs match")
        elif len(jobs) == limit:
            session.out.say(f"older ones: --before {jobs[-1].id}")

    session.out.show({"jobs": [job_document(job) for job in jobs]}, text)


def show(
    ctx: typer.Context,
    job_id: JobId,
    show_input: Annotated[bool, typer.Option("--input", help="Also the stored input, as redacted.")] = False,
    show_output: Annotated[bool, typer.Option("--output", help="Also the stored output.")] = False,
) -> None:
    """Show everything on record about one job: state, reason, attempts, deliveries, calls, commits, timeline."""
    session: Session = ctx.obj
    which = identity(job_id)
    app = session.database_app
    looking = app.inspector
    record = looking.record(which)
    why = looking.why(record)
    extra: dict[str, Any] = {}
    if show_input:
        snapshot = app.uow.read(lambda conn: app.snapshots.load(conn, [record.job.id])).get(record.job.id)
        extra["input"] = None if snapshot is None or snapshot.content is None else parse(snapshot.content)
    if show_output:
        extra["output"] = app.jobs.output(record.job.id)

    def text() -> None:
        session.out.fields(job_document(record.job))
        session.out.line()
        rendering.explanation(session.out, why, now=record.now)
        _tables(session, record)
        for name, value in extra.items():
            _heading(session, name)
            rendering.result(session.out, value)

    session.out.show(_whole(record, extra) | {"why": document(why)}, text)


def explain(ctx: typer.Context, job_id: JobId) -> None:
    """Say why a job is where it is, what happens next by itself and when, and what may be done."""
    session: Session = ctx.obj
    which = identity(job_id)
    looking = session.database_app.inspector
    record = looking.record(which)
    why = looking.why(record)

    def text() -> None:
        job = record.job
        session.out.line(f"{job.job_type} {job.id}: {job.lifecycle_status.value}")
        rendering.explanation(session.out, why, now=record.now)

    session.out.show({"jobId": str(record.job.id)} | document(why), text)


def _whole(record: JobRecord, extra: dict[str, Any]) -> dict[str, Any]:
    return {
        "job": job_document(record.job),
        "attempts": [document(claim) for claim in record.claims],
        "events": [document(event) for event in record.events],
        "calls": [document(call) for call in record.calls],
        "commits": [document(commit) for commit in record.commits],
        "artifacts": [document(ref) for ref in record.artifacts],
        "timeline": [
            {"at": plain(moment.at), "what": moment.what} | document(moment.detail) for moment in record.timeline
        ],
        **extra,
    }


def _tables(session: Session, record: JobRecord) -> None:
    out = session.out
    if record.claims:
        _heading(session, "attempts")
        out.table(
            ("EPOCH", "ATTEMPT", "REASON", "WORKER", "STARTED", "ENDED", "ERROR"),
            [(c.epoch, c.attempt_no, c.start_reason, c.worker, c.started_at, c.ended_at, c.error_code)
             for c in record.claims],
        )  # fmt: skip
    if record.calls:
        _heading(session, "provider calls")
        out.table(
            ("EPOCH", "CALL", "PROVIDER", "MODEL", "STATUS", "IN", "OUT", "MS", "ERROR"),
            [(c["epoch"], c["call_no"], c["provider"], c["model"], c["status"], c["input_tokens"],
              c["output_tokens"], c["latency_ms"], c["error_code"]) for c in record.calls],
        )  # fmt: skip
    if record.commits:
        _heading(session, "commits")
        out.table(
            ("OPERATION", "VERSION", "ATTEMPT", "COMMITTED"),
            [(c.operation, c.version, c.attempt_no, c.committed_at) for c in record.commits],
        )
    _heading(session, "timeline")
    for moment in record.timeline:
        out.line(rendering.moment(moment, record.job.created_at))


def _heading(session: Session, title: str) -> None:
    session.out.line()
    session.out.line(title, style="bold")
