"""``aijobs run``: dispatcher, upkeep and worker in one process, for small sites and for trying things out."""

from __future__ import annotations

import typer

from engine.cli import daemon
from engine.cli.commands.worker import Concurrency, Grace, Name, Queues, assembled, fields_of
from engine.cli.nouns import single
from engine.cli.probes import MetricsPort, ProbeHost, ProbePort, probes
from engine.cli.session import Session
from engine.observe.readiness import Progress
from engine.worker.assembly import make_dispatcher

command = single()


@command.command(epilog="Example: aijobs db upgrade && aijobs run")
def run(
    ctx: typer.Context,
    queues: Queues = None,
    concurrency: Concurrency = None,
    grace: Grace = None,
    name: Name = None,
    probe_port: ProbePort = None,
    metrics_port: MetricsPort = None,
    probe_host: ProbeHost = "127.0.0.1",
) -> int:
    """Run all roles in one process until told to stop. Needs no Redis server: it may bring its own.

    Signals and exit codes are those of `aijobs worker`.
    """
    session: Session = ctx.obj
    app = daemon.prepare(session, role="run", alone=True)
    progress = Progress()
    worker = assembled(app, queues, concurrency=concurrency, grace=grace, name=name, progress=progress)
    dispatcher = make_dispatcher(app, progress=progress)

    def work() -> bool:
        dispatcher.start()
        finished = worker.run()
        # After the worker, so that what was handed back is still on its way while others may take it.
        dispatcher.stop()
        return dispatcher.join() and finished

    with probes(app, progress, role="run", port=probe_port, metrics_port=metrics_port, host=probe_host):
        return daemon.run(
            "run", work, stop=worker.stop, ready=worker.wait_ready, fields=fields_of(worker, app, queues)
        )
