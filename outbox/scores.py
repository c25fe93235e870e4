"""One order, in SQL and in Redis: when an event was due, plus what its priority is worth in waiting time.

With a step of 1000 ms one step of priority is worth a second of waiting, so nothing starves; a step larger
than any wait gives strict order (design 8, TR-15).
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from outbox.base.clock import epoch_ms
from outbox.events import NewEvent

#: The lowest priority; 0 is the top.
LOWEST_PRIORITY = 100
#: Step for strict order: longer than any wait, and priority 100 still fits a double in Lua (2**53).
STRICT_STEP_MS = 2**40


class Score:
    """Computes deliver scores for one step of priority."""

    def __init__(self, step_ms: int) -> None:
        self._step_ms = step_ms

    @property
    def reach_ms(self) -> int:
        """How far above now the score of a due event can lie: the bound of the dispatcher's scan."""
        return LOWEST_PRIORITY * self._step_ms

    def parameters(self, event: NewEvent) -> dict[str, Any]:
        """The bound values of :func:`score_expression` for ``event``."""
        priority_ms = event.priority * self._step_ms
        return {
            "kept_score": None if event.score_ms is None else event.score_ms + priority_ms,
            "least_ms": _ms(event.available_at) if event.available_at else 0,
            "priority_ms": priority_ms,
        }

    def first(self, priority: int, due: datetime) -> int:
        """The score of a first delivery that was ``due`` then, as :func:`score_expression` has it.

        No job was due before it was created, whatever its creator says.
        """
        return _ms(due) + priority * self._step_ms


def score_expression() -> sa.ColumnElement[int]:
    """max(created, available_at) in ms + priority * step; or a score kept from an earlier delivery."""
    kept = sa.bindparam("kept_score", type_=sa.BigInteger())
    least = sa.bindparam("least_ms", type_=sa.BigInteger())
    priority = sa.bindparam("priority_ms", type_=sa.BigInteger())
    return sa.func.coalesce(kept, _Greatest(epoch_ms("available_us"), least) + priority)


def _ms(instant: datetime) -> int:
    return int(instant.timestamp() * 1000)


class _Greatest(FunctionElement[int]):
    type = sa.BigInteger()
    inherit_cache = True


@compiles(_Greatest)
def _greatest(element: Any, compiler: Any, **kw: Any) -> str:
    return f"GREATEST({compiler.process(element.clauses, **kw)})"


@compiles(_Greatest, "sqlite")
def _sqlite_greatest(element: Any, compiler: Any, **kw: Any) -> str:
    return f"max({compiler.process(element.clauses, **kw)})"
