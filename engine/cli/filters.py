"""The options that choose jobs, alike for every verb that takes a set of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypeAlias

import typer

from engine.cli.errors import UsageMistake
from engine.cli.session import Session
from engine.cli.values import instant, target
from engine.lifecycle.views import JobFilter
from registry.job import LifecycleStatus

Status: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(metavar="STATUS", help="queued, running, succeeded, failed or cancelled; may be repeated."),
]
Type: TypeAlias = Annotated[str | None, typer.Option("--type", metavar="TYPE", help="Only this job type.")]
Queue: TypeAlias = Annotated[str | None, typer.Option(metavar="QUEUE", help="Only this queue.")]
User: TypeAlias = Annotated[str | None, typer.Option(metavar="USER", help="Only jobs of this user.")]
Target: TypeAlias = Annotated[str | None, typer.Option(metavar="TYPE:ID", help="Only jobs about this.")]
ErrorCode: TypeAlias = Annotated[
    str | None, typer.Option("--error", metavar="CODE", help="Only jobs that ended with this error code.")
]
Since: TypeAlias = Annotated[
    str | None, typer.Option(metavar="TIME", help="Created at or after: 2026-01-31T09:00:00Z, or -1h.")
]
Until: TypeAlias = Annotated[str | None, typer.Option(metavar="TIME", help="Created before: a time, or -1h.")]


def job_filter(
    session: Session,
    *,
    status: Sequence[str] | None = None,
    job_type: str | None = None,
    queue: str | None = None,
    user: str | None = None,
    about: str | None = None,
    error: str | None = None,
    since: str | None = None,
    until: str | None = None,
) -> JobFilter:
    """The filter of these options; relative times count from the database's now."""
    app = session.database_app
    now = app.uow.read(app.clock.read) if since or until else None
    kind, key = target(about) if about else (None, None)
    return JobFilter(
        statuses=[_status(word) for word in status or ()],
        # the legacy spelling with dashes is known too
        job_type=job_type.replace("-", "_") if job_type else None,
        queue_name=queue,
        user_id=user,
        target_type=kind,
        target_id=key,
        error_code=error,
        created_from=instant(since, now=now, name="--since") if since and now else None,
        created_until=instant(until, now=now, name="--until") if until and now else None,
    )


def _status(word: str) -> LifecycleStatus:
    try:
        return LifecycleStatus(word)
    except ValueError:
        known = ", ".join(LifecycleStatus)
        raise UsageMistake(f"--status: {word!r} is not one of {known}") from None
