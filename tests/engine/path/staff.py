"""The parts of dispatchers, workers, upkeep and operators that a walk moves by hand: the real ones."""

from __future__ import annotations

from typing import Any

from engine.app import AiJobApp
from engine.lifecycle.audit import AuditRepository
from engine.lifecycle.outputs import Output
from engine.lifecycle.values import Failure
from engine.pipeline.prepare import Preparer
from engine.pipeline.project import Projection
from engine.pipeline.retry import Fail, Park, RetryInPlace
from engine.pipeline.settle import Settler
from engine.pipeline.work import Produced, Work
from engine.upkeep.operations import OutboxOperations
from engine.worker.assembly import make_upkeep
from outbox.base.canonical import sha256
from registry.job import StartReason, WaitKind
from tests.engine.path.account import RATE_WAIT, RETRY_WAIT
from tests.engine.pipeline.samples import Answer

_FAILURE = Failure("PROVIDER_ERROR", "The provider failed.", "ProviderError: 500")


class Staff:
    """One of each, for one application."""

    def __init__(self, app: AiJobApp) -> None:
        self.preparer = Preparer(
            registry=app.registry, uow=app.uow, lifecycle=app.lifecycle, snapshots=app.snapshots,
            telemetry=app.telemetry, worker="worker", in_hand=lambda _lease: False,
        )  # fmt: skip
        self.projection = Projection(
            uow=app.uow, lifecycle=app.lifecycle, outputs=app.outputs, endings=app.endings,
            projectors=app.projectors, clock=app.clock, telemetry=app.telemetry,
        )  # fmt: skip
        self.settler = Settler(
            uow=app.uow, lifecycle=app.lifecycle, outbox=app.outbox, endings=app.endings, worker="worker",
            look_after_ms=60_000,
        )  # fmt: skip
        self.operations = OutboxOperations(
            uow=app.uow, lifecycle=app.lifecycle, outbox=app.outbox, endings=app.endings,
            audit=AuditRepository(app.clock),
        )  # fmt: skip
        self.healer = make_upkeep(app)

    def write(self, work: Work, how: str) -> Any:
        match how:
            case "succeed":
                return self.projection.commit(produced(work))
            case "fail":
                return self.settler.fail(work, Fail(_FAILURE))
            case "cancel":
                return self.settler.cancel(work)
            case "release":
                return self.settler.release(work)
            case "again":
                return self.settler.retry_in_place(work, RetryInPlace(0, _FAILURE))
            case "retry":
                park = Park(WaitKind.RETRY, StartReason.RETRY, RETRY_WAIT * 1000, _FAILURE)
            case _:
                park = Park(WaitKind.RATE, StartReason.RATE, RATE_WAIT * 1000, _FAILURE)
        return self.settler.park(work, park)


def produced(work: Work) -> Produced:
    return Produced(work, Answer(), Output(b"{}", sha256(b"{}"), "1", "1", 90))
