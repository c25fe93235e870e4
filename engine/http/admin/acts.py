"""One act of an operator: done and written down in one transaction, or refused and written down."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import sqlalchemy as sa
from fastapi import Request

from engine.http.auth import ADMIN, SUPER_ADMIN, Principal
from engine.http.edge import Edge, joining
from engine.http.routes import request_id
from engine.lifecycle.audit import Act
from engine.upkeep.operations import By
from outbox.base.errors import DatabaseError
from outbox.errors import TransportError
from registry.errors import AiJobsError
from registry.job import JobView

T = TypeVar("T")

_log = logging.getLogger("aijobs.http.admin")


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
        """Run ``unit`` and write down what it did in the same transaction.

        A refusal is written down too, in a transaction of its own, and raised. ``detail_of`` adds what is known
        only afterwards.
        """

        def act(result: str, more: Mapping[str, Any]) -> Act:
            return Act(
                actor=self.principal.subject, edge="http", verb=verb, object_type=object_type,
                object_id=str(object_id), reason=reason, result=result, request_id=self.request,
                detail=dict(detail or {}) | dict(more),
            )  # fmt: skip

        def whole(conn: sa.Connection) -> T:
            done = unit(conn)
            self.edge.audit.append(conn, act("done", detail_of(done) if detail_of else {}))
            return done

        try:
            return self.edge.app.uow.run(joining(whole))
        except DatabaseError:
            raise
        except AiJobsError as error:
            self.refused(act(error.code, {}))
            raise

    def refused(self, act: Act) -> None:
        """Write a refusal down; that it cannot be written hides no refusal."""
        try:
            self.edge.app.uow.run(lambda conn: self.edge.audit.append(conn, act))
        except DatabaseError as error:
            _log.warning("a refusal was not written down: %s", error.code)

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
