"""``aijobs worker``: a process that runs the jobs of some queues."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from engine.app import AiJobApp
from engine.cli import daemon
from engine.cli.errors import UsageMistake
from engine.cli.nouns import single
from engine.cli.probes import MetricsPort, ProbeHost, ProbePort, probes
from engine.cli.session import Session
from engine.cli.values import duration_ms
from engine.observe.readiness import Progress
from engine.worker.assembly import make_worker
from engine.worker.process import WorkerProcess

command = single()

Queues: TypeAlias = Annotated[list[str] | None, typer.Argument(metavar="[QUEUE]...")]
Concurrency: TypeAlias = Annotated[
    str | None,
    typer.Option("--concurrency", "-c", metavar="N|QUEUE=N,...", help="Jobs at once; default: each queue's own."),
]
Grace: TypeAlias = Annotated[
    str | None, typer.Option(metavar="DURATION", help="Time for running jobs after the first signal [30s].")
]
Name: TypeAlias = Annotated[str | None, typer.Option(help="What logs and lists call it; default: host and pid.")]


@command.command(epilog="Example: aijobs worker ai-interactive --concurrency 50")
def worker(
    ctx: typer.Context,
    queues: Queues = None,
    concurrency: Concurrency = None,
    burst: Annotated[bool, typer.Option("--burst", help="End when the queues are empty.")] = False,
    grace: Grace = None,
    name: Name = None,
    probe_port: ProbePort = None,
    metrics_port: MetricsPort = None,
    probe_host: ProbeHost = "127.0.0.1",
) -> int:
    """Run the jobs of these queues (default: all) until told to stop.

    The first SIGTERM or Ctrl-C takes nothing new and lets jobs finish within the grace; a second one hands
    them back at once. Exit code 0 when everything was finished, 143 or 130 when jobs were handed back.
    """
    session: Session = ctx.obj
    app = daemon.prepare(session, role="worker")
    progress = Progress()
    process = assembled(app, queues, concurrency=concurrency, grace=grace, name=name, progress=progress)
    with probes(app, progress, role="worker", port=probe_port, metrics_port=metrics_port, host=probe_host):
        return daemon.run(
            "worker", lambda: process.run(burst=burst), stop=process.stop, ready=process.wait_ready,
            fields=fields_of(process, app, queues),
        )  # fmt: skip


def assembled(
    app: AiJobApp,
    queues: list[str] | None,
    *,
    concurrency: str | None,
    grace: str | None,
    name: str | None,
    progress: Progress,
) -> WorkerProcess:
    """The worker that these options describe."""
    return make_worker(
        app,
        queues or (),
        concurrency=_slots(concurrency),
        grace_ms=None if grace is None else duration_ms(grace, name="--grace"),
        name=_checked(name),
        progress=progress,
    )


def fields_of(process: WorkerProcess, app: AiJobApp, queues: list[str] | None) -> dict[str, str]:
    """What its log lines say about a worker."""
    names = queues or [queue.name for queue in app.registry.queues]
    return {"worker": process.name, "queues": ",".join(names)}


def _slots(text: str | None) -> dict[str, int] | int | None:
    if text is None:
        return None
    if "=" not in text:
        return _number(text)
    pairs = [part.partition("=") for part in text.split(",")]
    return {name.strip(): _number(number) for name, _, number in pairs}


def _number(text: str) -> int:
    if not text.strip().isdecimal() or not 1 <= int(text) <= 10_000:
        fix = "a number from 1 to 10000, or QUEUE=N,QUEUE=N"
        raise UsageMistake(f"--concurrency: {text!r} is not a number of jobs", fix=fix)
    return int(text)


def _checked(name: str | None) -> str | None:
    if name is not None and not (0 < len(name) <= 100 and name.isascii() and name.isprintable() and " " not in name):
        raise UsageMistake("--name: must be 1 to 100 printable ASCII characters without spaces")
    return name
