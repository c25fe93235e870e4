"""``aijobs queues``: what waits where, who listens, and what is paused."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

import sqlalchemy as sa
import typer

from engine.app import AiJobApp
from engine.cli.inspecting import is_embedded, me
from engine.cli.nouns import noun
from engine.cli.session import Session
from engine.cli.values import duration_ms
from engine.lifecycle import figures, views
from engine.lifecycle.audit import Act, AuditRepository
from engine.lifecycle.circumstances import span
from engine.lifecycle.documents import document
from engine.lifecycle.queues import QueueControlRepository
from engine.lifecycle.views import JobFilter
from outbox.errors import TransportError
from outbox.figures import waiting
from registry.job import LifecycleStatus
from registry.queues import QueueSpec

command = noun("Queues: what waits where, who listens, what is paused.")

Queue = Annotated[str, typer.Argument(metavar="QUEUE")]

#: What is counted no further, as in `aijobs jobs list --count`.
_MOST = 10_000


@command.command("list", epilog="Example: aijobs queues list --json")
def list_(ctx: typer.Context) -> None:
    """List queues with what waits in the database and in Redis, and how many workers listen.

    Each count ends at 10 000.
    """
    session: Session = ctx.obj
    app = session.database_app
    rows = app.uow.read(lambda conn: queue_rows(conn, app))
    trouble = add_redis(app, rows)

    def text() -> None:
        session.out.table(
            ("NAME", "QUEUED", "RUNNING", "IN REDIS", "WORKERS", "PER WORKER", "LEASE", "PAUSED", "OLDEST"),
            [
                (r["name"], counted(r["queued"]), counted(r["running"]), r.get("inRedis", "-"), r.get("workers", "-"),
                 r["concurrency"], f"{r['leaseMs'] / 1000:g}s", r.get("paused", {}).get("reason", ""), oldest(r))
                for r in rows
            ],
        )  # fmt: skip
        if trouble:
            session.out.say(trouble)

    session.out.show({"queues": rows}, text)


def counted(number: int) -> str:
    """A count for people, who are told where it ended."""
    return f"{_MOST}+" if number >= _MOST else str(number)


def oldest(row: dict[str, Any]) -> str:
    """How long the oldest job of a queue waits, for people."""
    seconds = row.get("oldestWaitingSeconds")
    return "-" if seconds is None else span(timedelta(seconds=seconds))


def queue_rows(conn: sa.Connection, app: AiJobApp) -> list[dict[str, Any]]:
    """What the database knows of each queue."""
    paused = QueueControlRepository(app.clock).paused(conn)
    since, now = figures.waiting_since(conn, waiting(conn)), app.clock.read(conn)
    rows = []
    for queue in app.registry.queues:
        first = since.get(queue.name)
        age = {} if first is None or first > now else {"oldestWaitingSeconds": (now - first).total_seconds()}
        rows.append(_row(conn, queue) | age | _pause(paused.get(queue.name)))
    return rows


def _row(conn: sa.Connection, queue: QueueSpec) -> dict[str, Any]:
    def count(status: LifecycleStatus) -> int:
        return views.count(conn, JobFilter(statuses=[status], queue_name=queue.name))

    return {
        "name": queue.name,
        "queued": count(LifecycleStatus.QUEUED),
        "running": count(LifecycleStatus.RUNNING),
        "concurrency": queue.concurrency,
        "leaseMs": queue.lease_ms,
        "heartbeatMs": queue.heartbeat_ms,
        "backoffMs": queue.backoff_ms,
    }


def _pause(found: Any) -> dict[str, Any]:
    return {} if found is None else {"paused": document(found)}


def add_redis(app: AiJobApp, rows: list[dict[str, Any]]) -> str | None:
    """Fill in what Redis knows; returns why not, where it cannot be asked."""
    if is_embedded(app):
        return "Redis is inside the process of `aijobs run` and cannot be asked from here"
    try:
        depth = app.transport.depth([row["name"] for row in rows])
        workers = app.transport.workers()
    except TransportError as error:
        return f"Redis cannot be asked: {error}"
    for row in rows:
        row["inRedis"] = depth[row["name"]]
        row["workers"] = sum(row["name"] in worker.queues for worker in workers)
    return None


@command.command(epilog="Example: aijobs queues pause ai-background --reason 'provider down' --for 30m")
def pause(
    ctx: typer.Context,
    queue: Queue,
    reason: Annotated[str, typer.Option(help="Why; shown with every job that waits.")],
    for_: Annotated[
        str | None, typer.Option("--for", metavar="DURATION", help="Resume by itself after this; default: never.")
    ] = None,
) -> None:
    """Let a queue hand out no more work, within seconds. What runs goes on, what is new waits."""
    session: Session = ctx.obj
    app = session.database_app
    name = app.registry.queue(queue).name
    span_ms = None if for_ is None else duration_ms(for_, name="--for")
    by = me()

    def unit(conn: sa.Connection) -> None:
        control = QueueControlRepository(app.clock)
        control.pause(conn, name, by=by.actor, reason=reason, for_ms=span_ms)
        _note(conn, app, "queue.pause", name, reason)

    app.uow.run(unit, repeatable=True)
    session.out.show({"name": name, "paused": True}, lambda: session.out.say(f"{name} is paused"))


@command.command(epilog="Example: aijobs queues resume ai-background")
def resume(ctx: typer.Context, queue: Queue) -> None:
    """Let a paused queue go on."""
    session: Session = ctx.obj
    app = session.database_app
    name = app.registry.queue(queue).name

    def unit(conn: sa.Connection) -> bool:
        was_paused = QueueControlRepository(app.clock).resume(conn, name)
        if was_paused:
            _note(conn, app, "queue.resume", name, None)
        return was_paused

    was_paused = app.uow.run(unit, repeatable=True)
    said = f"{name} goes on" if was_paused else f"{name} was not paused"
    session.out.show({"name": name, "wasPaused": was_paused}, lambda: session.out.say(said))


def _note(conn: sa.Connection, app: AiJobApp, verb: str, name: str, reason: str | None) -> None:
    by = me()
    act = Act(actor=by.actor, edge=by.edge, verb=verb, object_type="queue", object_id=name, reason=reason)
    AuditRepository(app.clock).append(conn, act)
