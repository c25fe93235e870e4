"""``aijobs jobs follow``: what happens to one job, as it happens, until its end."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Annotated
from uuid import UUID

import typer

from engine.cli.commands.jobs.ending import verdict
from engine.cli.errors import Exit
from engine.cli.output import Output
from engine.cli.progress import Watch, state_of, wait_for
from engine.cli.session import Session
from engine.cli.values import duration_ms, identity
from engine.errors import JobNotFoundError
from engine.lifecycle import views
from engine.lifecycle.circumstances import Explanation, span
from engine.lifecycle.documents import document
from registry.job import JobView


def follow(
    ctx: typer.Context,
    job_id: Annotated[str, typer.Argument(metavar="ID")],
    timeout: Annotated[str | None, typer.Option(metavar="DURATION", help="Longest wait; default: none.")] = None,
) -> int:
    """Print a line for every change of a job's status or progress until it has ended.

    With --json each line is a JSON document of its own. Exit codes are those of `aijobs jobs wait`.
    """
    session: Session = ctx.obj
    which = identity(job_id)
    timeout_s = None if timeout is None else duration_ms(timeout, name="--timeout") / 1000
    app = session.database_app
    job, now = app.uow.read(lambda conn: (views.find(conn, which), app.clock.read(conn)))
    if job is None:
        raise JobNotFoundError(f"there is no job {which}")
    changes = _Changes(session.out, job, age=now - job.created_at, why=app.inspector.explain)
    seen, done = wait_for(app, [which], changes, timeout_s=timeout_s)
    if not done:
        session.out.say(f"time is up; the job goes on: aijobs jobs explain {which}")
        return Exit.TIMED_OUT
    return verdict(session, list(seen.values()))


class _Changes(Watch):
    """Prints changes of one job as data."""

    def __init__(
        self, out: Output, job: JobView, *, age: timedelta, why: Callable[[UUID], Explanation]
    ) -> None:
        """``age`` is how long ago the job was created, by the database's clock."""
        super().__init__(out, {job.id: f"{job.job_type} {job.id}"}, why=why)
        self._began = time.monotonic() - age.total_seconds()
        self._last: str | None = None

    def show(self, jobs: Mapping[UUID, JobView]) -> None:
        """Print the job's state where it has changed."""
        for job in jobs.values():
            state = state_of(job)
            if state != self._last:
                self._last = state
                self._print(job, state)
        super().show(jobs)

    def _print(self, job: JobView, state: str) -> None:
        age = timedelta(seconds=time.monotonic() - self._began)
        if self._out.json:
            told = {name: getattr(job, name) for name in _TOLD}
            self._out.record({"jobId": str(job.id), "ageSeconds": round(age.total_seconds(), 3)} | document(told))
        else:
            self._out.line(f"+{span(age):<8} {state}")


_TOLD = ("lifecycle_status", "wait_kind", "attempt_count", "progress", "progress_note", "error_code")
