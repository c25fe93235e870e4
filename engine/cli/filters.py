"""The options that choose jobs, alike for every verb that takes a set of them."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, TypeAlias, TypeVar

import typer

from engine.cli.errors import UsageMistake
from engine.cli.session import Session
from engine.cli.values import instant, target
from engine.lifecycle.views import JobFilter
from registry.job import LifecycleStatus
from registry.nearest import did_you_mean

E = TypeVar("E", bound=StrEnum)

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
    _tell_slips(session, job_type, queue)
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


def _tell_slips(session: Session, job_type: str | None, queue: str | None) -> None:
    """A name that is not registered here may still be one of older jobs, so it is only a warning."""
    registry = session.app.registry
    if job_type and registry.find(job_type) is None:
        near = did_you_mean(job_type, registry.types())
        session.out.warn(f"--type: no job type {job_type!r} is registered{near}")
    warn_of_queue(session, queue)


def warn_of_queue(session: Session, queue: str | None, *others: str) -> None:
    """Warn of a ``--queue`` that is neither configured nor one of ``others``."""
    known = [*(spec.name for spec in session.app.registry.queues), *others]
    if queue and queue not in known:
        session.out.warn(f"--queue: no queue {queue!r} is configured{did_you_mean(queue, known)}")


def _status(word: str) -> LifecycleStatus:
    return word_of(LifecycleStatus, word, name="--status")


def word_of(kind: type[E], word: str, *, name: str) -> E:
    """One of a fixed set of words. Raises :class:`UsageMistake`, which names them and the nearest."""
    try:
        return kind(word)
    except ValueError:
        known = [str(member.value) for member in kind]
        near = did_you_mean(word, known)
        raise UsageMistake(f"{name}: {word!r} is not one of {', '.join(known)}{near}") from None
