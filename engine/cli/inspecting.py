"""The inspector and the operations of an application, as the command line uses them."""

from __future__ import annotations

import getpass

from engine.app import AiJobApp
from engine.lifecycle.audit import AuditRepository
from engine.upkeep.inspection import InspectionOptions, JobInspector
from engine.upkeep.operations import By, OutboxOperations


def is_embedded(app: AiJobApp) -> bool:
    """Whether Redis is this process's own, so that no other process can be met there."""
    return not app.transport.features.cross_process


def inspector(app: AiJobApp) -> JobInspector:
    """Looks jobs of ``app`` over."""
    app.start()
    settings = app.settings
    return JobInspector(
        uow=app.uow, clock=app.clock, registry=app.registry, usage=app.usage, transport=app.transport,
        embedded=is_embedded(app),
        options=InspectionOptions(
            poll_ms=settings.dispatcher.poll_ms, claim_ttl_ms=settings.dispatcher.claim_ttl_ms,
            upkeep_ms=settings.upkeep.interval_ms, redelivery_ms=settings.upkeep.redelivery_ms,
            high_water_mark=settings.dispatcher.high_water_mark,
        ),
    )  # fmt: skip


def operations(app: AiJobApp) -> OutboxOperations:
    """What may be done with the outbox of ``app``."""
    return OutboxOperations(
        uow=app.uow, lifecycle=app.lifecycle, outbox=app.outbox, endings=app.endings,
        audit=AuditRepository(app.clock), look_after_ms=app.settings.upkeep.redelivery_ms,
    )  # fmt: skip


def me() -> By:
    """Whoever sits at this command line, for the audit."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError):  # an account without a name, as in some containers
        name = "unknown"
    return By(actor=name[:128], edge="cli")
