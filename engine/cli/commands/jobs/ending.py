"""``aijobs jobs wait|cancel|retry``: how jobs end, and begin again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Annotated, TypeAlias
from uuid import UUID

import typer

from engine.cli import filters, rendering
from engine.cli.errors import Exit, UsageMistake
from engine.cli.inspecting import acts, me
from engine.cli.output import one_line
from engine.cli.progress import Watch, wait_for
from engine.cli.session import Session
from engine.cli.values import duration_ms, identity
from engine.errors import CreateError, JobNotFoundError, JobStateError
from engine.intake.commands import CreatedJob
from engine.lifecycle import views
from engine.lifecycle.documents import job_document
from engine.lifecycle.views import JobFilter
from outbox.errors import TransportError
from registry.job import JobView, LifecycleStatus

JobIds = Annotated[list[str] | None, typer.Argument(metavar="[ID]...")]
JobList: TypeAlias = Sequence[CreatedJob]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show which jobs it would be.")]

_NOTHING = filters.Chosen()
#: Jobs that one command takes on at most; run it again for the rest.
_MOST = 10_000


def wait(
    ctx: typer.Context,
    ids: Annotated[list[str], typer.Argument(metavar="ID...")],
    timeout: Annotated[str | None, typer.Option(metavar="DURATION", help="Longest wait; default: none.")] = None,
    any_: Annotated[bool, typer.Option("--any", help="End with the first job that ends.")] = False,
) -> int:
    """Wait until jobs have ended, and print the output of a single one.

    Exit code 0 when all succeeded, 5 when one did not, 6 when the time was up (the jobs go on).
    """
    session: Session = ctx.obj
    wanted = [identity(text) for text in ids]
    timeout_s = None if timeout is None else duration_ms(timeout, name="--timeout") / 1000
    found = session.database_app.uow.read(lambda conn: views.load(conn, wanted))
    for job_id in wanted:
        if job_id not in found:
            raise JobNotFoundError(f"there is no job {job_id}")
    return finish(session, [found[job_id] for job_id in wanted], timeout_s=timeout_s, any_=any_)


def finish(session: Session, jobs: Sequence[JobView], *, timeout_s: float | None, any_: bool = False) -> int:
    """Wait for ``jobs``, print what became of them, and return the exit code."""
    app, out = session.app, session.out
    until = (lambda seen: any(job.is_final for job in seen.values())) if any_ else None
    names = {job.id: f"{job.job_type} {job.id}" for job in jobs}
    with Watch(out, names, why=app.inspector.explain) as watch:
        seen, done = wait_for(app, [job.id for job in jobs], watch, timeout_s=timeout_s, until=until)
    ended = [seen[job.id] for job in jobs if seen[job.id].is_final]
    documents = [
        job_document(job) | ({"output": app.jobs.output(job.id)} if job.is_final else {}) for job in seen.values()
    ]

    def text() -> None:
        if len(jobs) > 1:
            out.table(("STATUS", "ID", "TYPE", "ERROR"),
                      [(j.lifecycle_status.value, j.id, j.job_type, j.error_code) for j in seen.values()])  # fmt: skip
        elif ended and ended[0].lifecycle_status is LifecycleStatus.SUCCEEDED:
            rendering.result(out, documents[0]["output"])

    out.show(documents[0] if len(jobs) == 1 else {"jobs": documents}, text)
    if not done:
        open_ = len(jobs) - len(ended)
        out.say(f"time is up; {open_} of {len(jobs)} jobs go on: aijobs jobs explain {_first_open(seen)}")
        return Exit.TIMED_OUT
    return verdict(session, ended)


def _first_open(seen: dict[UUID, JobView]) -> UUID:
    return next(job.id for job in seen.values() if not job.is_final)


def verdict(session: Session, ended: Sequence[JobView]) -> int:
    """Tell what went wrong with ended jobs, and return the exit code."""
    bad = [job for job in ended if job.lifecycle_status is not LifecycleStatus.SUCCEEDED]
    for job in bad[:3]:
        told = job.internal_error_message or job.public_error_message
        why = f" with {job.error_code}: {told}" if job.error_code else ""
        session.out.warn(one_line(f"{job.job_type} {job.id} {job.lifecycle_status.value}{why}"))
    return Exit.JOB_NOT_SUCCEEDED if bad else Exit.DONE


# ------------------------------------------------------------------ cancel and retry


@filters.choosing(but=("error",))
def cancel(
    ctx: typer.Context,
    ids: JobIds = None,
    chosen: filters.Chosen = _NOTHING,
    dry_run: DryRun = False,
) -> int:
    """Cancel jobs by id, or all that match. A running one is asked to stop at its next checkpoint."""
    session: Session = ctx.obj
    wanted = chosen.filter(session, status=["queued", "running"]) if chosen else None
    job_ids = _job_ids(session, ids or [], wanted, verb="cancel", dry_run=dry_run)

    def act(job_id: UUID) -> str:
        job = _cancelled(session, job_id)
        return "cancelled" if job.is_final else "asked to stop"

    return _each(session, job_ids, act, single=wanted is None)


@filters.choosing()
def retry(
    ctx: typer.Context,
    ids: JobIds = None,
    chosen: filters.Chosen = _NOTHING,
    dry_run: DryRun = False,
) -> int:
    """Create a new job with the input of each failed or cancelled one; ended jobs themselves never change."""
    session: Session = ctx.obj
    wanted = chosen.filter(session, status=["failed"]) if chosen else None
    job_ids = _job_ids(session, ids or [], wanted, verb="retry", dry_run=dry_run)
    return _each(session, job_ids, lambda job_id: _retried(session, job_id), single=wanted is None)


def _cancelled(session: Session, job_id: UUID) -> JobView:
    app = session.app
    job = acts(app).do(
        me(), "job.cancel", "job", job_id, lambda conn: app.jobs.request_cancel(job_id, session=conn),
        detail_of=lambda job: {"lifecycleStatus": job.lifecycle_status.value},
    )  # fmt: skip
    # Redis only speeds it up; the column is the truth.
    with suppress(TransportError):
        app.transport.cancel(job.queue_name, job.job_type, job.id)
    return job


def _retried(session: Session, job_id: UUID) -> str:
    app = session.app
    made = acts(app).do(
        me(), "job.retry", "job", job_id, lambda conn: app.jobs.retry_as_new(job_id, session=conn),
        detail_of=lambda made: {"newJobId": str(made.job.id)},
    )  # fmt: skip
    return str(made.job.id)


def _job_ids(
    session: Session, ids: Sequence[str], wanted: JobFilter | None, *, verb: str, dry_run: bool
) -> list[UUID]:
    """The jobs to act on: those named, or those that match, after confirmation."""
    if bool(ids) == (wanted is not None):
        raise UsageMistake(f"name jobs by id or choose them by options such as --status, to {verb} them")
    app = session.database_app
    chosen = [identity(text) for text in ids] if wanted is None else _matching(session, wanted)
    if dry_run:
        jobs = app.uow.read(lambda conn: views.load(conn, chosen[: views.PAGE_LIMIT]))
        rows = [(j.lifecycle_status.value, j.id, j.job_type) for j in jobs.values()]
        session.out.show(
            {"jobs": [str(job_id) for job_id in chosen]}, lambda: session.out.table(("STATUS", "ID", "TYPE"), rows)
        )
        session.out.say(f"{len(chosen)} jobs would be taken; nothing was done")
        raise typer.Exit(0)
    if wanted is not None and chosen:
        session.confirm(f"{verb} {len(chosen)} jobs?")
    return chosen


def _matching(session: Session, wanted: JobFilter) -> list[UUID]:
    found: list[UUID] = []
    before: UUID | None = None
    while len(found) < _MOST:
        page = session.app.uow.read(
            lambda conn, before=before: views.page(conn, wanted, before=before, limit=views.PAGE_LIMIT)  # type: ignore[misc]
        )
        found += [job.id for job in page]
        if len(page) < views.PAGE_LIMIT:
            break
        before = page[-1].id
    return found


def _each(session: Session, chosen: Sequence[UUID], act: Callable[[UUID], str], *, single: bool) -> int:
    """Act on each job; one that is in the way is told and skipped."""
    rows: list[tuple[UUID, str, bool]] = []
    if len(chosen) == 1 and single:
        rows.append((chosen[0], act(chosen[0]), True))
    else:
        with session.out.bar("working", len(chosen)) as bar:
            for job_id in chosen:
                try:
                    rows.append((job_id, act(job_id), True))
                except (JobStateError, CreateError) as error:
                    rows.append((job_id, f"{error.code}: {error}", False))
                bar.to(len(rows))
    skipped = sum(not done for _, _, done in rows)
    document = {"jobs": [{"jobId": str(i), "result": text, "done": done} for i, text, done in rows]}
    session.out.show(document, lambda: session.out.table(("ID", "RESULT"), [row[:2] for row in rows]))
    session.out.say(f"{len(rows)} jobs, {len(rows) - skipped} done, {skipped} skipped")
    return Exit.STATE if skipped and single else Exit.DONE
