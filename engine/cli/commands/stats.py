"""``aijobs stats``: how things stand, in one look."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
import typer

from engine.app import AiJobApp
from engine.cli.commands.queues import add_redis, counted, oldest, queue_rows
from engine.cli.inspecting import is_embedded
from engine.cli.nouns import single
from engine.cli.session import Session
from engine.lifecycle import views
from engine.lifecycle.views import JobFilter
from outbox import queries
from outbox.errors import TransportError
from registry.job import LifecycleStatus

command = single()


@command.command(epilog="Example: aijobs stats --json")
def stats(ctx: typer.Context) -> None:
    """Count jobs by status, outbox events by state, and what waits in each queue and for how long.

    Each count ends at 10 000. Works without Redis, and then leaves out what only Redis knows.
    """
    session: Session = ctx.obj
    app = session.database_app
    found = app.uow.read(lambda conn: _of_the_database(conn, app))
    trouble = add_redis(app, found["queues"])
    if trouble is None:
        found["daemons"] = _daemons(app)

    def text() -> None:
        out = session.out
        out.fields({name: counted(number) for name, number in found["jobs"].items()})
        out.line()
        out.table(
            ("QUEUE", "QUEUED", "RUNNING", "IN REDIS", "OLDEST", "WORKERS"),
            [(r["name"], counted(r["queued"]), counted(r["running"]), r.get("inRedis", "-"), oldest(r),
              r.get("workers", "-")) for r in found["queues"]],
        )  # fmt: skip
        out.line()
        out.fields({f"outbox {name}": counted(number) for name, number in found["outbox"].items() if number})
        out.fields(found.get("daemons", {}))
        if trouble:
            out.say(trouble)

    session.out.show(found, text)


def _of_the_database(conn: sa.Connection, app: AiJobApp) -> dict[str, Any]:
    return {
        "jobs": {status.value: views.count(conn, JobFilter(statuses=[status])) for status in LifecycleStatus},
        "queues": queue_rows(conn, app),
        "outbox": dict(queries.counts(conn)),
    }


def _daemons(app: AiJobApp) -> dict[str, int]:
    if is_embedded(app):
        return {}
    try:
        return {"workers": len(app.transport.workers()), "dispatchers": len(app.transport.dispatchers())}
    except TransportError:
        return {}
