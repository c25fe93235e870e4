"""COMPLETE: say what happened. Nothing here can change what was committed (PC-1)."""

from __future__ import annotations

import time

from engine.pipeline.project import Ending
from engine.pipeline.work import Work
from outbox.base.telemetry import Telemetry
from outbox.transports.base import Settlement

#: How a ticket looks to RQ's own tools after its claim ended; it decides nothing (TR-5).
SETTLEMENTS: dict[Ending, Settlement] = {
    Ending.SUCCEEDED: Settlement.FINISHED,
    Ending.FAILED: Settlement.FAILED,
    Ending.CANCELLED: Settlement.CANCELED,
    Ending.LEFT: Settlement.FINISHED,
    Ending.FENCED: Settlement.FINISHED,
}


def complete(telemetry: Telemetry, work: Work, ending: Ending, began: float) -> None:
    """Emit the end of a claim; ``began`` is monotonic seconds."""
    telemetry.emit(
        f"job.{ending.value}",
        job_id=str(work.job.id),
        job_type=work.job.job_type,
        queue=work.job.queue_name,
        attempt=work.claim.attempt_no,
        epoch=work.lease.epoch,
        run_ms=round((time.monotonic() - began) * 1000),
    )
