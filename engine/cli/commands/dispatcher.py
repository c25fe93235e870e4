"""``aijobs dispatcher``: moves events from the outbox to Redis, and heals what was lost."""

from __future__ import annotations

from typing import Annotated

import typer

from engine.app import AiJobApp
from engine.cli import daemon
from engine.cli.commands.worker import Name
from engine.cli.errors import Exit
from engine.cli.nouns import single
from engine.cli.probes import MetricsPort, ProbeHost, ProbePort, probes
from engine.cli.session import Session
from engine.cli.values import duration_ms
from engine.observe.readiness import Progress
from engine.worker.assembly import make_dispatcher

command = single()

#: What one round may have done, and what it is called.
_COUNTS = {
    "published": "outbox.published",
    "refused": "outbox.refused",
    "dead": "outbox.dead",
    "claimsReleased": "outbox.claims_released",
    "takenOver": "job.taken_over",
    "redelivered": "job.redelivered",
}


@command.command(epilog="Example: aijobs dispatcher --once --json")
def dispatcher(
    ctx: typer.Context,
    once: Annotated[bool, typer.Option("--once", help="Do what is due, print what was done, and end.")] = False,
    upkeep: Annotated[
        bool, typer.Option("--upkeep/--no-upkeep", help="Also take over, redeliver and clean up.")
    ] = True,
    batch: Annotated[int | None, typer.Option(min=1, max=500, help="Events per queue and round.")] = None,
    poll: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Longest pause between two looks [1s].")
    ] = None,
    name: Name = None,
    probe_port: ProbePort = None,
    metrics_port: MetricsPort = None,
    probe_host: ProbeHost = "127.0.0.1",
) -> int:
    """Dispatch until told to stop. Any number may run; each also carries upkeep unless told otherwise.

    After a SIGTERM or Ctrl-C the batch under way is finished and the exit code is 0; were it cut off, its
    events would be released after a minute and put again, which changes nothing.
    """
    session: Session = ctx.obj
    app = daemon.prepare(session, role="dispatcher")
    _set(app, batch=batch, poll=poll)
    progress = Progress()
    process = make_dispatcher(app, name=name, upkeep=upkeep, progress=progress)
    if once:
        process.run_once()
        return _report(session, app)

    def work() -> bool:
        process.run()
        return process.join(timeout_s=0)

    fields = {"dispatcher": process.name}
    with probes(app, progress, role="dispatcher", port=probe_port, metrics_port=metrics_port, host=probe_host):
        return daemon.run("dispatcher", work, stop=process.stop, fields=fields, hands_back=False)


def _set(app: AiJobApp, *, batch: int | None, poll: str | None) -> None:
    changed: dict[str, int] = {}
    if batch is not None:
        changed["batch"] = batch
    if poll is not None:
        changed["poll_ms"] = max(1, duration_ms(poll, name="--poll"))
    if changed:
        dispatching = app.settings.dispatcher.model_copy(update=changed)
        app.settings = app.settings.model_copy(update={"dispatcher": dispatching})


def _report(session: Session, app: AiJobApp) -> int:
    counts = {word: app.telemetry.count(fact) for word, fact in _COUNTS.items()}
    session.out.show(counts, lambda: session.out.fields(counts))
    if app.telemetry.count("outbox.transport_unavailable"):
        session.out.warn("Redis did not answer; what is due waits in the outbox")
        return Exit.UNREACHABLE
    return Exit.DONE
