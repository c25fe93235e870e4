"""What a stock ``rq worker`` runs in an emergency: one ticket, by our own worker, in this process.

RQ has taken the ticket already, so the worker gets a transport that holds nothing but this ticket. All
promises hold as ever, since they are kept by the row; only speed and concurrency are RQ's.
"""

from __future__ import annotations

import logging
import pkgutil
from typing import Any
from uuid import UUID

from engine.app import AiJobApp
from engine.config import load_settings
from engine.errors import SettingsError
from engine.lifecycle import views
from engine.worker.assembly import make_worker
from outbox.transports.base import Ticket
from outbox.transports.memory import MemoryTransport

_log = logging.getLogger("aijobs.worker")


def run_one(ticket: dict[str, Any]) -> None:
    """Run the job of ``ticket`` to its end, if it is to be run; returns nothing and never raises (TR-6).

    The application is found by ``AIJOBS_APP``; without it there are the built-in job types. Whatever goes
    wrong is logged by its kind, and upkeep delivers the job again.
    """
    try:
        app = _find_app()
        try:
            _run(app, ticket)
        finally:
            app.close()
    except Exception as error:  # noqa: BLE001 - RQ must neither retry nor keep a traceback (TR-6, TR-12)
        _log.error("the ticket could not be run: %s", type(error).__name__)


def _find_app() -> AiJobApp:
    reference = load_settings().app
    if reference is None:
        return AiJobApp()
    found = pkgutil.resolve_name(reference)
    app = found() if callable(found) and not isinstance(found, AiJobApp) else found
    if not isinstance(app, AiJobApp):
        raise SettingsError(f"AIJOBS_APP: {reference} is not an AiJobApp")
    return app


def _run(app: AiJobApp, ticket: dict[str, Any]) -> None:
    job_id = UUID(ticket["jobId"])
    job = app.uow.read(lambda conn: views.find(conn, job_id))
    if job is None:
        return
    transport = MemoryTransport()
    transport.put_many(
        [
            Ticket(
                job_id=job_id,
                job_type=job.job_type,
                queue_name=job.queue_name,
                delivery_no=int(ticket["deliveryNo"]),
                deliver_score=0,
                created_at_ms=int(ticket.get("createdAt", 0)),
                traceparent=ticket.get("traceparent"),
            )
        ]
    )
    make_worker(app, [job.queue_name], concurrency=1, transport=transport).run(burst=True)
