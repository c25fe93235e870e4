"""``aijobs workers``: the processes that Redis has heard of lately."""

from __future__ import annotations

from datetime import timedelta

import typer

from engine.cli.daemon import refuse_embedded
from engine.cli.nouns import noun
from engine.cli.session import Session
from engine.lifecycle.circumstances import span
from engine.lifecycle.documents import document
from outbox.transports.base import WorkerPresence

command = noun("Workers and dispatchers that Redis has heard of within 90 seconds.")


@command.command("list", epilog="Example: aijobs workers list --json")
def list_(ctx: typer.Context) -> None:
    """List workers with their queues and what they hold, and dispatchers, and when they were last heard of."""
    session: Session = ctx.obj
    refuse_embedded(session.app, "workers list")
    transport = session.app.transport
    workers, dispatchers = transport.workers(), transport.dispatchers()

    def text() -> None:
        session.out.table(
            ("NAME", "ROLE", "QUEUES", "HOST", "PID", "HOLDS", "UP", "HEARD OF"),
            [_row(one, "worker") for one in workers] + [_row(one, "dispatcher") for one in dispatchers],
        )
        if not workers:
            session.out.say("no worker is running; start one: aijobs worker QUEUE")
        if not dispatchers:
            session.out.say("no dispatcher is running; start one: aijobs dispatcher")

    session.out.show(
        {"workers": [document(one) for one in workers], "dispatchers": [document(one) for one in dispatchers]}, text
    )


def _row(one: WorkerPresence, role: str) -> tuple[object, ...]:
    queues, holds = (",".join(one.queues), one.executing) if role == "worker" else ("-", "-")
    return (one.name, role, queues, one.hostname, one.pid, holds, _span(one.up_ms), f"{_span(one.silent_ms)} ago")


def _span(ms: int) -> str:
    return span(timedelta(milliseconds=ms))
