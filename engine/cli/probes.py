"""``--probe-port`` and ``--metrics-port`` of daemons: how the process stands, for whoever watches over it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from engine.app import AiJobApp
from engine.cli.errors import UsageMistake
from engine.cli.tree import missing_library
from engine.migrations import standing
from engine.observe.readiness import Progress, ReadinessCheck

if TYPE_CHECKING:
    from engine.observe.probe import ProbeServer

_log = logging.getLogger("aijobs.probe")

ProbePort: TypeAlias = Annotated[
    int | None,
    typer.Option(min=0, max=65_535, metavar="PORT", help="Answer /livez, /readyz and /metrics there; 0: any free one."),
]
MetricsPort: TypeAlias = Annotated[
    int | None, typer.Option(min=0, max=65_535, metavar="PORT", help="Answer /metrics there, and nowhere else.")
]
ProbeHost: TypeAlias = Annotated[
    str, typer.Option(metavar="ADDRESS", help="Where both listen; they ask nobody for credentials.")
]


@contextmanager
def probes(
    app: AiJobApp, progress: Progress, *, role: str, port: int | None, metrics_port: int | None, host: str
) -> Iterator[list[ProbeServer]]:
    """Answer probes while the block runs, where a port is given; gives the servers that do.

    Raises :class:`UsageMistake` for a port in use.
    """
    metrics = None if port is None and metrics_port is None else _metrics(app, role, needed=metrics_port is not None)
    shared = port is not None and port == metrics_port and port != 0
    with ExitStack() as servers:
        listening: list[ProbeServer] = []
        if port is not None:
            ready = _readiness(app, progress).body
            both = metrics if shared or metrics_port is None else None
            server = _listening(role, "probes", host, port, ready=ready, metrics=both)
            listening.append(servers.enter_context(server))
        if metrics_port is not None and not shared:
            server = _listening(role, "metrics", host, metrics_port, metrics=metrics)
            listening.append(servers.enter_context(server))
        yield listening


def _listening(role: str, what: str, host: str, port: int, **answers: object) -> ProbeServer:
    # Only here: Python's HTTP server is for daemons that are asked to answer.
    from engine.observe.probe import ProbeServer

    try:
        server = ProbeServer(host=host, port=port, **answers)  # type: ignore[arg-type]
    except OSError as error:
        fix = "choose another port, or 0 for any free one"
        raise UsageMistake(f"{role}: {host}:{port} cannot be listened on: {error.strerror}", fix=fix) from None
    _log.info("%s listen", what, extra={"fields": {"host": host, "port": server.port}})
    return server


def _readiness(app: AiJobApp, progress: Progress) -> ReadinessCheck:
    return ReadinessCheck(
        uow=app.uow,
        transport=lambda: app.transport,
        queues=[queue.name for queue in app.registry.queues],
        schema_is_current=lambda: standing.is_recent(app.database),
        progress=progress,
    )


def _metrics(app: AiJobApp, role: str, *, needed: bool) -> Callable[[], tuple[str, bytes]] | None:
    """What ``/metrics`` answers; None without Prometheus' library, which only ``--metrics-port`` asks for."""
    try:
        from engine.observe.metrics import CONTENT_TYPE, Metrics
    except ModuleNotFoundError as error:
        if needed:
            raise missing_library(role, error) from error
        return None
    metrics = Metrics(
        telemetry=app.telemetry,
        uow=app.uow,
        clock=app.clock,
        transport=lambda: app.transport,
        queues=[queue.name for queue in app.registry.queues],
        version=version("aijobs"),
    )
    return lambda: (CONTENT_TYPE, metrics.text())
