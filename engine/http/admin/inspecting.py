"""The inspector and the operations of an application, as the operator's API uses them."""

from __future__ import annotations

from engine.app import AiJobApp
from engine.lifecycle.audit import AuditRepository
from engine.upkeep.inspection import InspectionOptions, JobInspector
from engine.upkeep.operations import OutboxOperations


def inspector(app: AiJobApp) -> JobInspector:
    """Looks jobs of ``app`` over."""
    settings = app.settings
    return JobInspector(
        uow=app.uow,
        clock=app.clock,
        registry=app.registry,
        usage=app.usage,
        transport=app.transport,
        embedded=False,
        options=InspectionOptions(
            poll_ms=settings.dispatcher.poll_ms,
            claim_ttl_ms=settings.dispatcher.claim_ttl_ms,
            upkeep_ms=settings.upkeep.interval_ms,
            redelivery_ms=settings.upkeep.redelivery_ms,
            high_water_mark=settings.dispatcher.high_water_mark,
        ),
    )


def operations(app: AiJobApp) -> OutboxOperations:
    """What may be done with the outbox of ``app``."""
    return OutboxOperations(
        uow=app.uow,
        lifecycle=app.lifecycle,
        outbox=app.outbox,
        endings=app.endings,
        audit=AuditRepository(app.clock),
        look_after_ms=app.settings.upkeep.redelivery_ms,
    )
