"""A column that may narrow a statement and must not choose its way.

InnoDB locks what it walks over, not what it changes. An UPDATE of some rows by key that also asks for their
state may be led by the optimizer over an index on the state: past the uncommitted rows of every caller whose
transaction is open, and of every dispatcher with a batch in hand, waiting for each (OB-6, OB-8, DB-3).
"""

from __future__ import annotations

from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

T = TypeVar("T")


class _Unindexed(FunctionElement[Any]):
    inherit_cache = True

    def __init__(self, column: sa.ColumnElement[Any]) -> None:
        super().__init__(column)
        self.type = column.type


def unindexed(column: sa.ColumnElement[T]) -> sa.ColumnElement[T]:
    """``column``, in a form that MySQL and MariaDB cannot look up in an index; for the WHERE of a change by key."""
    return _Unindexed(column)


@compiles(_Unindexed)
def _plain(element: Any, compiler: Any, **kw: Any) -> str:
    return str(compiler.process(element.clauses, **kw))


@compiles(_Unindexed, "mysql")
@compiles(_Unindexed, "mariadb")
def _hidden(element: Any, compiler: Any, **kw: Any) -> str:
    return f"COALESCE({compiler.process(element.clauses, **kw)})"
