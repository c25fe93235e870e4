"""The options that choose jobs, alike for every verb that takes a set of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Annotated, Any, TypeAlias, TypeVar

import typer

from engine.cli.errors import UsageMistake
from engine.cli.session import Session
from engine.cli.values import instant, target
from engine.lifecycle.views import JobFilter
from registry.job import LifecycleStatus
from registry.nearest import did_you_mean

E = TypeVar("E", bound=StrEnum)
R = TypeVar("R")

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


@dataclass(frozen=True, slots=True)
class Chosen:
    """What the options that choose jobs say; false where none was given."""

    status: Sequence[str] | None = None
    job_type: str | None = None
    queue: str | None = None
    user: str | None = None
    target: str | None = None
    error: str | None = None
    since: str | None = None
    until: str | None = None

    def __bool__(self) -> bool:
        return any(getattr(self, field.name) for field in fields(self))

    def filter(self, session: Session, *, status: Sequence[str] = ()) -> JobFilter:
        """The filter of these options; ``status`` where none is named, times count from the database's now."""
        app = session.database_app
        _tell_slips(session, self.job_type, self.queue)
        now = app.uow.read(app.clock.read) if self.since or self.until else None
        kind, key = target(self.target) if self.target else (None, None)
        return JobFilter(
            statuses=[_status(word) for word in self.status or status],
            # the legacy spelling with dashes is known too
            job_type=self.job_type.replace("-", "_") if self.job_type else None,
            queue_name=self.queue,
            user_id=self.user,
            target_type=kind,
            target_id=key,
            error_code=self.error,
            created_from=instant(self.since, now=now, name="--since") if self.since and now else None,
            created_until=instant(self.until, now=now, name="--until") if self.until and now else None,
        )


def _declare(
    status: Status = None, job_type: Type = None, queue: Queue = None, user: User = None, target: Target = None,
    error: ErrorCode = None, since: Since = None, until: Until = None,
) -> None:  # fmt: skip
    """Never called: only what it declares is used."""


def choosing(*, but: Sequence[str] = ()) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Give a command the options that choose jobs, in place of its argument ``chosen: Chosen``.

    ``but`` names those that would make no sense for it.
    """
    options = [one for one in inspect.signature(_declare, eval_str=True).parameters.values() if one.name not in but]

    def decorate(command: Callable[..., R]) -> Callable[..., R]:
        own = list(inspect.signature(command, eval_str=True).parameters.values())
        place = next(index for index, one in enumerate(own) if one.name == "chosen")
        parameters = [*own[:place], *options, *own[place + 1 :]]

        def run(**given: Any) -> R:
            chosen = Chosen(**{one.name: given.pop(one.name) for one in options})
            return command(chosen=chosen, **given)

        run.__doc__, run.__name__ = command.__doc__, command.__name__
        run.__annotations__ = {one.name: one.annotation for one in parameters}
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return run

    return decorate


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
