"""``aijobs outbox``: events on their way out of the database, and the few that need a person."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated
from uuid import UUID

import typer

from engine.cli.errors import Exit, UsageMistake
from engine.cli.filters import warn_of_queue, word_of
from engine.cli.inspecting import me
from engine.cli.nouns import noun
from engine.cli.session import Session
from engine.cli.values import identity
from engine.lifecycle.circumstances import span
from engine.lifecycle.documents import document
from engine.upkeep.errors import OutboxEventNotFound, OutboxEventState
from engine.upkeep.operations import Operation
from outbox import queries
from outbox.events import SUBSCRIBER_QUEUE, EventType
from outbox.states import EventStatus

command = noun("Events on their way out of the database; dead ones wait for a person.")

EventIds = Annotated[list[str] | None, typer.Argument(metavar="[EVENT]...")]
Everything = Annotated[bool, typer.Option("--all-dead", help="Every dead event.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show which events it would be.")]


@command.command(epilog="Example: aijobs outbox stats --json")
def stats(ctx: typer.Context) -> None:
    """Count events by state, and tell how long the oldest due one waits."""
    session: Session = ctx.obj
    app = session.database_app
    counts, oldest, strange, now = app.uow.read(
        lambda conn: (
            queries.counts(conn), queries.oldest_due(conn, app.clock),
            queries.unroutable(conn, list(EventType)), app.clock.read(conn),
        )
    )  # fmt: skip
    waits = None if oldest is None else now - oldest
    found = counts | {"unroutable": strange, "oldestDueSeconds": None if waits is None else waits.total_seconds()}

    def text() -> None:
        session.out.fields(counts | {"unroutable": strange, "oldest due": "-" if waits is None else span(waits)})
        if counts["dead"]:
            session.out.say("dead events wait for you: aijobs outbox list --status dead")

    session.out.show(found, text)


@command.command("list", epilog="Example: aijobs outbox list --status dead")
def list_(
    ctx: typer.Context,
    status: Annotated[
        str | None, typer.Option(metavar="STATUS", help="pending, processing, published, dead, obsolete, discarded.")
    ] = None,
    queue: Annotated[
        str | None, typer.Option(metavar="QUEUE", help="Only this queue; @events for subscribers.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=queries.PAGE_LIMIT, help="Rows at most.")] = 50,
    before: Annotated[
        str | None, typer.Option(metavar="EVENT", help="Only events older than this one: the next page.")
    ] = None,
) -> None:
    """List events, newest first."""
    session: Session = ctx.obj
    app = session.database_app
    wanted = None if status is None else word_of(EventStatus, status, name="--status")
    warn_of_queue(session, queue, SUBSCRIBER_QUEUE)
    first = None if before is None else identity(before, name="event id")
    events, now = app.uow.read(
        lambda conn: (
            queries.page(conn, status=wanted, queue_name=queue, before=first, limit=limit),
            app.clock.read(conn),
        )
    )

    def text() -> None:
        session.out.table(
            ("STATUS", "EVENT", "WHAT", "JOB", "TYPE", "QUEUE", "TRIES", "AGE", "ERROR"),
            [
                (e.status, e.id, e.event_type.removeprefix("ai.job."), e.job_id, e.job_type, e.queue_name,
                 e.attempt_count, span(now - e.created_at), e.last_error)
                for e in events
            ],
        )  # fmt: skip
        if not events:
            session.out.say("no events match")
        elif len(events) == limit:
            session.out.say(f"older ones: --before {events[-1].id}")

    session.out.show({"events": [document(event) for event in events]}, text)


@command.command(epilog="Example: aijobs outbox show EVENT")
def show(ctx: typer.Context, event: Annotated[str, typer.Argument(metavar="EVENT")]) -> None:
    """Show one event."""
    session: Session = ctx.obj
    event_id = identity(event, name="event id")
    found = session.database_app.uow.read(lambda conn: queries.find(conn, event_id))
    if found is None:
        raise OutboxEventNotFound(f"there is no outbox event {event_id}")
    values = document(found)
    session.out.show(values, lambda: session.out.fields(values))


@command.command(epilog="Example: aijobs outbox redeliver --all-dead --yes")
def redeliver(
    ctx: typer.Context,
    events: EventIds = None,
    everything: Everything = False,
    reason: Annotated[str | None, typer.Option(help="Kept in the audit log.")] = None,
    dry_run: DryRun = False,
) -> int:
    """Hand events on once more: dead ones with a fresh budget, published ones whose ticket Redis has lost.

    Harmless to repeat: whichever delivery comes first starts the job, once.
    """
    session: Session = ctx.obj
    chosen = _chosen(session, events or [], everything, verb="redeliver", dry_run=dry_run)
    doing = session.app.operations
    return _each(session, chosen, lambda event_id: doing.redeliver(event_id, by=me(), reason=reason))


@command.command(epilog="Example: aijobs outbox discard EVENT --reason 'queue was removed'")
def discard(
    ctx: typer.Context,
    reason: Annotated[str, typer.Option(help="Why it is given up; kept with the event and its job.")],
    events: EventIds = None,
    everything: Everything = False,
    dry_run: DryRun = False,
) -> int:
    """Give dead events up. A job that waited for one fails with DISPATCH_DISCARDED."""
    session: Session = ctx.obj
    if not reason.strip():
        raise UsageMistake("--reason: must not be empty")
    chosen = _chosen(session, events or [], everything, verb="discard", dry_run=dry_run)
    doing = session.app.operations
    return _each(session, chosen, lambda event_id: doing.discard(event_id, by=me(), reason=reason))


def _chosen(session: Session, events: Sequence[str], everything: bool, *, verb: str, dry_run: bool) -> list[UUID]:
    if bool(events) == everything:
        raise UsageMistake(f"name events by id, or all dead ones with --all-dead, to {verb} them")
    app = session.database_app
    ids = [identity(text, name="event id") for text in events]
    if everything:
        dead = app.uow.read(
            lambda conn: queries.page(conn, status=EventStatus.DEAD, limit=queries.PAGE_LIMIT)
        )
        ids = [event.id for event in dead]
    if dry_run:
        session.out.show({"events": [str(i) for i in ids]}, lambda: session.out.table(("EVENT",), [(i,) for i in ids]))
        session.out.say(f"{len(ids)} events would be taken; nothing was done")
        raise typer.Exit(0)
    if ids and (everything or verb == "discard"):
        session.confirm(f"{verb} {len(ids)} events?")
    return ids


def _each(session: Session, chosen: Sequence[UUID], act: Callable[[UUID], Operation]) -> int:
    rows: list[tuple[UUID, str, bool]] = []
    for event_id in chosen:
        try:
            rows.append((event_id, act(event_id).effect.value, True))
        except (OutboxEventState, OutboxEventNotFound) as error:
            if len(chosen) == 1:
                raise
            rows.append((event_id, f"{error.code}: {error}", False))
    skipped = sum(not done for _, _, done in rows)
    found = {"events": [{"id": str(i), "result": text, "done": done} for i, text, done in rows]}
    session.out.show(found, lambda: session.out.table(("EVENT", "RESULT"), [row[:2] for row in rows]))
    session.out.say(f"{len(rows)} events, {len(rows) - skipped} done, {skipped} skipped")
    return Exit.STATE if skipped else Exit.DONE
