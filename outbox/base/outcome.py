"""What became of a caller's transaction, told right after its COMMIT to those who wait for it.

SQLAlchemy's own event comes before COMMIT is sent. And an engine in use takes no listeners: a new one goes into
the very list that other threads are walking, and breaks what they were about. So the dialect's methods are
replaced, each by one assignment, the first time somebody waits on one of its connections.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final, Protocol

import sqlalchemy as sa

#: In the ``info`` of a connection: who waits for the end of its transaction.
_WAITERS: Final = "aijobs_waiters"

#: Attribute of a dialect that tells them.
_TELLS: Final = "_aijobs_tells"

_replacing = threading.Lock()


class Waiter(Protocol):
    """Who is called once, when the transaction is committed, and never when it is rolled back."""

    def __call__(self) -> None:
        """It is committed, or may be, where it was told to :meth:`doubt` that."""
        ...

    def doubt(self) -> None:
        """Some of it may not be stored: a rollback to a savepoint, or a COMMIT that was not answered."""
        ...


def tell_outcome(conn: sa.Connection, waiter: Waiter) -> None:
    """Let ``waiter`` know what becomes of the transaction that ``conn`` is in; nothing is sent for it."""
    conn.info.setdefault(_WAITERS, []).append(waiter)
    with _replacing:
        if not getattr(conn.dialect, _TELLS, False):
            setattr(conn.dialect, _TELLS, True)
            _replace(conn.dialect)


def _replace(dialect: Any) -> None:
    commit, commit_twophase = dialect.do_commit, dialect.do_commit_twophase
    rollback, rollback_twophase = dialect.do_rollback, dialect.do_rollback_twophase
    rollback_to_savepoint = dialect.do_rollback_to_savepoint

    def do_commit(connection: Any) -> None:
        _told(connection.info, lambda: commit(connection))

    def do_commit_twophase(conn: Any, *how: Any, **also: Any) -> None:
        _told(conn.info, lambda: commit_twophase(conn, *how, **also))

    def do_rollback(connection: Any) -> None:
        connection.info.pop(_WAITERS, None)
        rollback(connection)

    def do_rollback_twophase(conn: Any, *how: Any, **also: Any) -> None:
        conn.info.pop(_WAITERS, None)
        rollback_twophase(conn, *how, **also)

    def do_rollback_to_savepoint(conn: Any, name: str) -> None:
        for waiter in conn.info.get(_WAITERS, ()):
            waiter.doubt()
        rollback_to_savepoint(conn, name)

    dialect.do_commit, dialect.do_commit_twophase = do_commit, do_commit_twophase
    dialect.do_rollback, dialect.do_rollback_twophase = do_rollback, do_rollback_twophase
    dialect.do_rollback_to_savepoint = do_rollback_to_savepoint


def _told(info: dict[Any, Any], commit: Callable[[], None]) -> None:
    waiters: list[Waiter] = info.pop(_WAITERS, [])
    try:
        commit()
    except BaseException:
        # Perhaps it is stored all the same.
        for waiter in waiters:
            waiter.doubt()
        raise
    finally:
        for waiter in waiters:
            waiter()
