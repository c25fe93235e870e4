"""``aijobs jobs create``: one job, or one for each line of a file; all through the outbox like any other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Annotated, Any

import typer

from engine.app import AiJobApp
from engine.cli.commands.jobs.ending import JobList, finish
from engine.cli.errors import UsageMistake
from engine.cli.files import read_lines, read_payload
from engine.cli.session import Session
from engine.cli.values import duration_ms, instant, json_object, target
from engine.intake.checks import check_payload
from engine.intake.commands import CreatedJob, CreateJobInput, JobOverrides
from engine.lifecycle.documents import job_document
from registry.errors import AiJobsError

#: Jobs of a file that are created in one transaction.
_CHUNK = 100


def create(
    ctx: typer.Context,
    job_type: Annotated[str, typer.Argument(metavar="TYPE")],
    payload: Annotated[
        str | None, typer.Option("--input", metavar="JSON|@FILE|-", help="The input; - reads standard input.")
    ] = None,
    batch: Annotated[
        str | None, typer.Option(metavar="FILE", help="A file with one input per line: a job for each.")
    ] = None,
    user: Annotated[str, typer.Option(help="Whose job it is.")] = "cli",
    about: Annotated[str, typer.Option("--target", metavar="TYPE:ID", help="What it is about.")] = "cli:manual",
    key: Annotated[str | None, typer.Option(help="Idempotency key: the same one never makes two jobs.")] = None,
    priority: Annotated[int | None, typer.Option(help="0 (first) to 100 (last); default: the type's.")] = None,
    credential_mode: Annotated[str | None, typer.Option(help="Whose key pays; default: the type's.")] = None,
    credential_id: Annotated[str | None, typer.Option(help="Which stored key, for user_deepseek_key.")] = None,
    at: Annotated[str | None, typer.Option(metavar="TIME", help="Not before this time, with its offset.")] = None,
    after: Annotated[str | None, typer.Option("--in", metavar="DURATION", help="Not before this has passed.")] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the end and print the output.")] = False,
    timeout: Annotated[str | None, typer.Option(metavar="DURATION", help="Longest wait; default: none.")] = None,
) -> int:
    """Create a job and print its id. A dispatcher and a worker must run for it to go on."""
    session: Session = ctx.obj
    app = session.database_app
    limit = app.settings.payload_limit_bytes
    overrides = JobOverrides(priority=priority, credential_mode=credential_mode, credential_id=credential_id)
    kind, number = target(about)
    fixed: dict[str, Any] = {
        "user_id": user, "job_type": job_type, "target_type": kind, "target_id": number,
        "overrides": overrides, "available_at": _start(app, at, after),
    }  # fmt: skip
    timeout_s = None if timeout is None else duration_ms(timeout, name="--timeout") / 1000
    if batch is not None:
        _refuse_together(batch=True, input=payload is not None, key=key is not None)
        made = _create_all(session, fixed, _payloads(app, job_type, batch, limit))
    else:
        if payload is None:
            raise UsageMistake("--input is missing", fix="give JSON, @file, or - for standard input")
        content = json_object(read_payload(payload, limit=limit), name="--input")
        made = [app.jobs.create_job(CreateJobInput(payload=content, idempotency_key=key, **fixed))]
    if wait:
        _say(session, made)
        return finish(session, [one.job for one in made], timeout_s=timeout_s)
    _print(session, made, single=batch is None)
    return 0


def _start(app: AiJobApp, at: str | None, after: str | None) -> datetime | None:
    if at is None and after is None:
        return None
    _refuse_together(at=at is not None, **{"in": after is not None})
    now = app.uow.read(app.clock.read)
    return instant(at, now=now, name="--at") if at else instant(f"+{after}", now=now, name="--in")


def _refuse_together(**given: bool) -> None:
    names = [f"--{name}" for name, is_given in given.items() if is_given]
    if len(names) > 1:
        raise UsageMistake(f"{' and '.join(names)} do not go together")


# ------------------------------------------------------------------ a file of inputs


def _payloads(app: AiJobApp, job_type: str, name: str, limit: int) -> list[dict[str, Any]]:
    """Every line's input, all checked before the first job is created."""
    definition = app.registry.get(job_type)
    payloads = []
    for number, line in read_lines(name, limit=limit):
        payload = json_object(line, name=f"{name}:{number}")
        try:
            check_payload(definition, payload, limit=limit)
        except AiJobsError as error:
            raise UsageMistake(f"{name}:{number}: {error}", fix="nothing was created") from None
        payloads.append(payload)
    if not payloads:
        raise UsageMistake(f"{name}: holds no input")
    return payloads


def _create_all(session: Session, fixed: dict[str, Any], payloads: Sequence[dict[str, Any]]) -> list[CreatedJob]:
    made: list[CreatedJob] = []
    with session.out.bar("creating", len(payloads)) as bar:
        for chunk in _chunks(payloads):
            made += session.app.jobs.create_jobs([CreateJobInput(payload=p, **fixed) for p in chunk])
            bar.to(len(made))
    return made


def _chunks(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for start in range(0, len(items), _CHUNK):
        yield items[start : start + _CHUNK]


# ------------------------------------------------------------------ printing


def _print(session: Session, made: JobList, *, single: bool) -> None:
    documents = [{"job": job_document(one.job), "created": one.created} for one in made]

    def text() -> None:
        for one in made:
            session.out.line(str(one.job.id))
        _say(session, made)

    session.out.show(documents[0] if single else {"jobs": documents}, text)


def _say(session: Session, made: JobList) -> None:
    if len(made) > 1:
        session.out.say(f"{len(made)} jobs created")
        return
    job = made[0].job
    how = "created" if made[0].created else "exists already"
    session.out.say(f"{how} {job.id} ({job.lifecycle_status.value}); aijobs jobs explain {job.id}")
