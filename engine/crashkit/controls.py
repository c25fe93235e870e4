"""Protections to leave out, in a child of the kit only: a kit that cannot fail proves nothing.

Each takes one protection away from this process, by replacing a statement or a decision, and must be
reported as a breach by the run it is in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import sqlite

import engine.lifecycle.repository as repository
from engine.lifecycle.views import Overdue
from engine.upkeep.upkeep import Upkeep
from outbox.base.keyed import Keyed, one_of


def leave_out(names: Iterable[str]) -> None:
    """Take the protections ``names`` away from this process."""
    for name in names:
        CONTROLS[name]()


def _fence() -> None:
    """The final write names the job alone: neither its epoch nor its state nor its lease."""
    statements = _statements()
    bare: Any = _keeping(statements.SUCCEED, lambda text: "keys" in text).statement
    bare._where_criteria = (one_of(bare.table.c.id),)
    statements.SUCCEED = _ByIdAlone(bare)


def _lease() -> None:
    """A claim does not ask whether somebody else holds a live lease."""
    statements, decide = _statements(), vars(repository)["decide_claim"]
    statements.TAKE = _keeping(statements.TAKE, lambda text: "lock_until" not in text)

    def blind(row: Any, *, delivery_no: int) -> Any:
        return decide(row._replace(leased=False) if row.leased else row, delivery_no=delivery_no)

    vars(repository)["decide_claim"] = blind


def _redelivery() -> None:
    """Nobody asks whether Redis has lost a ticket."""

    def ask_nobody(_self: Upkeep, _jobs: Sequence[Overdue]) -> None:
        return None

    upkeep: Any = Upkeep
    upkeep._check_deliveries = ask_nobody


CONTROLS: dict[str, Callable[[], None]] = {
    "fence": _fence,
    "lease": _lease,
    "redelivery": _redelivery,
}


def _statements() -> Any:
    return vars(repository)["sql"]


class _ByIdAlone(Keyed):
    """Takes leases, and forgets their epochs."""

    def execute(self, conn: sa.Connection, keys: Any, **values: Any) -> int:
        return super().execute(conn, [job_id for ids in keys.values() for job_id in ids], **values)


def _keeping(keyed: Keyed, wanted: Callable[[str], bool]) -> Keyed:
    """The same UPDATE with only those conditions whose SQL is ``wanted``."""
    statement: Any = keyed.statement
    criteria = statement._where_criteria
    kept = tuple(c for c in criteria if wanted(str(c.compile(dialect=sqlite.dialect()))))
    if not kept or len(kept) == len(criteria):
        raise AssertionError("the statement has changed; this control takes nothing away from it")
    bare = statement._generate()
    bare._where_criteria = kept
    return Keyed(bare)
