"""One act of a person, through any edge: done and written down in one transaction, or refused and written down."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import sqlalchemy as sa

from engine.errors import CallerTransactionLostError
from engine.lifecycle.audit import Act, AuditRepository
from engine.upkeep.operations import By
from outbox.base.db import UnitOfWork
from outbox.base.errors import DatabaseError
from registry.errors import AiJobsError

T = TypeVar("T")

_log = logging.getLogger("aijobs.audit")


def joining(unit: Callable[[sa.Connection], T]) -> Callable[[sa.Connection], T]:
    """``unit`` for a unit of work of ours in which ``AiJobService`` joins.

    The service takes a connection for a caller's and does not repeat what the database refused; the unit of work
    around it does, so it is given the database's own error.
    """

    def run(conn: sa.Connection) -> T:
        try:
            return unit(conn)
        except CallerTransactionLostError as error:
            if isinstance(error.__cause__, sa.exc.DBAPIError):
                raise error.__cause__ from error
            raise

    return run


class Acts:
    """Runs acts and writes them down."""

    def __init__(self, uow: UnitOfWork, audit: AuditRepository) -> None:
        self._uow = uow
        self._audit = audit

    def do(
        self,
        by: By,
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
                actor=by.actor, edge=by.edge, verb=verb, object_type=object_type, object_id=str(object_id),
                reason=reason, result=result, request_id=by.request_id, detail=dict(detail or {}) | dict(more),
            )  # fmt: skip

        def whole(conn: sa.Connection) -> T:
            done = unit(conn)
            self._audit.append(conn, act("done", detail_of(done) if detail_of else {}))
            return done

        try:
            return self._uow.run(joining(whole))
        except DatabaseError:
            raise
        except AiJobsError as error:
            self.refused(act(error.code, {}))
            raise

    def refused(self, act: Act) -> None:
        """Write a refusal down; that it cannot be written hides no refusal."""
        try:
            self._uow.run(lambda conn: self._audit.append(conn, act))
        except DatabaseError as error:
            _log.warning("a refusal was not written down: %s", error.code)
