"""THE JOB'S LIFE, from ``create_job`` to committed rows.

The path a newcomer walks:

    intake/ ......... create_job: one transaction for job, snapshot and outbox event
    (outbox/) ....... the dispatcher puts a ticket on Redis
    worker/ ......... a process claims tickets and jobs, a batch at a time
    pipeline/ ....... prepare -> resolve -> execute -> project -> complete
    (projectors/) ... business rows, in the final transaction
    upkeep/ ......... what heals when a process or Redis is lost

Under them: lifecycle/ (the only writer of status), providers/ and resources/ (models, keys, prompts), usage/
(what calls cost), migrations/. Over them: app and config (the composition root), http/ and cli/ (the edges).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.app import AiJobApp
    from engine.config import Settings
    from engine.intake.commands import CreatedJob, CreateJobInput, JobOverrides
    from engine.intake.service import AiJobService
    from engine.lifecycle.receipts import CommitReceipt
    from engine.pipeline.context import JobContext
    from outbox.base.db import prepare_engine
    from projectors.protocol import ArtifactRef
    from registry.job import JobView

__all__ = [
    "AiJobApp", "AiJobService", "ArtifactRef", "CommitReceipt", "CreateJobInput", "CreatedJob", "JobContext",
    "JobOverrides", "JobView", "Settings", "prepare_engine",
]  # fmt: skip

#: Where each public name lives. Loaded when it is asked for: `aijobs --help` passes this package too.
_HOMES = {
    "AiJobApp": "engine.app",
    "Settings": "engine.config",
    "CreatedJob": "engine.intake.commands",
    "CreateJobInput": "engine.intake.commands",
    "JobOverrides": "engine.intake.commands",
    "AiJobService": "engine.intake.service",
    "CommitReceipt": "engine.lifecycle.receipts",
    "JobContext": "engine.pipeline.context",
    "ArtifactRef": "projectors.protocol",
    "JobView": "registry.job",
    "prepare_engine": "outbox.base.db",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
