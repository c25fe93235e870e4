"""``aijobs workers``: the worker processes that Redis has heard of lately."""

from __future__ import annotations

from datetime import timedelta

import typer

from engine.cli.daemon import refuse_embedded
from engine.cli.nouns import noun
from engine.cli.session import Session
from engine.lifecycle.circumstances import span
from engine.lifecycle.documents import document

command = noun("Worker processes that Redis has heard of within 90 seconds.")


@command.command("list", epilog="Example: aijobs workers list --json")
def list_(ctx: typer.Context) -> None:
    """List workers with their queues, what they hold, and when they were last heard of."""
    session: Session = ctx.obj
    refuse_embedded(session.app, "workers list")
    workers = session.app.transport.workers()

    def text() -> None:
        session.out.table(
            ("WORKER", "QUEUES", "HOST", "PID", "HOLDS", "UP", "HEARD OF"),
            [
                (w.name, ",".join(w.queues), w.hostname, w.pid, w.executing, _span(w.up_ms),
                 f"{_span(w.silent_ms)} ago")
                for w in workers
            ],
        )  # fmt: skip
        if not workers:
            session.out.say("no worker has been heard of; start one: aijobs worker QUEUE")

    session.out.show({"workers": [document(worker) for worker in workers]}, text)


def _span(ms: int) -> str:
    return span(timedelta(milliseconds=ms))
