"""Who sits at the command line, and what can be asked from there."""

from __future__ import annotations

import getpass

from engine.app import AiJobApp
from engine.lifecycle.audit import AuditRepository
from engine.upkeep.acts import Acts
from engine.upkeep.operations import By


def is_embedded(app: AiJobApp) -> bool:
    """Whether Redis is this process's own, so that no other process can be met there."""
    return not app.transport.features.cross_process


def acts(app: AiJobApp) -> Acts:
    """What a person does from here, written down with it."""
    return Acts(app.uow, AuditRepository(app.clock))


def me() -> By:
    """Whoever sits at this command line, for the audit."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError):  # an account without a name, as in some containers
        name = "unknown"
    return By(actor=name[:128], edge="cli")
