"""One act of an operator: done and written down in one transaction, or refused and written down."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import sqlalchemy as sa
from fastapi import Request

from engine.http.auth import ADMIN, SUPER_ADMIN, Principal
from engine.http.edge import Edge
from engine.http.routes import request_id
from engine.lifecycle.audit import Act
from engine.upkeep.acts import Acts
from engine.upkeep.operations import By
from outbox.errors import TransportError
from registry.job import JobView

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Operator:
    """Who acts, and in which request."""

    edge: Edge
    principal: Principal = field(repr=False)
    request: str | None

    @property
    def by(self) -> By:
        """This operator as the operations of other floors know it."""
        return By(actor=self.principal.subject, edge="http", request_id=self.request)

    @property
    def sees_internal(self) -> bool:
        """Whether error texts for engineers may be shown (ADR-003 7.4)."""
        return self.principal.may(SUPER_ADMIN)

    def do(
        self,
        verb: str,
        object_type: str,
        object_id: object,
        unit: Callable[[sa.Connection], T],
        *,
        reason: str | None = None,
        detail: Mapping[str, Any] | None = None,
        detail_of: Callable[[T], Mapping[str, Any]] | None = None,
    ) -> T:
        """:meth:`engine.upkeep.acts.Acts.do` by this operator."""
        return self._acts.do(
            self.by,
            verb,
            object_type,
            object_id,
            unit,
            reason=reason,
            detail=detail,
            detail_of=detail_of,
        )

    def refused(self, act: Act) -> None:
        """Write a refusal down; that it cannot be written hides no refusal."""
        self._acts.refused(act)

    @property
    def _acts(self) -> Acts:
        return Acts(self.edge.app.uow, self.edge.audit)

    def hint_cancel(self, job: JobView) -> None:
        """Tell the job's worker sooner than its next heartbeat would; the column is the truth (X36)."""
        try:
            self.edge.app.transport.cancel(job.queue_name, job.job_type, job.id)
        except TransportError:
            self.edge.app.telemetry.emit("cancel.hint_failed")


def operators(edge: Edge) -> Any:
    """The FastAPI dependency that gives the operator who calls."""
    admin = edge.gate.need(ADMIN)

    def operator(request: Request, principal: Principal = admin) -> Operator:
        return Operator(edge, principal, request_id(request))

    return operator
