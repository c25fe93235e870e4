"""A forked process leaves its parent's connections alone: two that speak on one socket read each other's answers.

Servers that load the application before they fork hand every child the parent's pool. The child begins with an
empty one of the same kind, and neither uses nor closes what it has inherited.
"""

from __future__ import annotations

import os
from typing import Any, Final
from weakref import WeakSet

import sqlalchemy as sa

_engines: Final[WeakSet[sa.Engine]] = WeakSet()
#: Kept in the child, since some drivers say goodbye to the server when a connection is collected.
_inherited: Final[list[Any]] = []


def leave_at_fork(engine: sa.Engine) -> None:
    """Give ``engine`` a pool of its own in every process forked from this one."""
    _engines.add(engine)


def _begin_anew() -> None:
    for engine in list(_engines):
        _inherited.append(engine.pool)
        engine.dispose(close=False)


os.register_at_fork(after_in_child=_begin_anew)
