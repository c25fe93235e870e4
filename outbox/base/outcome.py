"""What becomes of a caller's transaction: told right after its COMMIT to those who wait for it, and refused there.

SQLAlchemy's own event comes before COMMIT is sent. And an engine or a session in use takes no listeners: a new one
goes into the very list that somebody may be walking, and breaks what they were about, or is not asked. So the
dialect's methods are replaced, each by one assignment, the first time one of its connections is of interest.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, Final, Protocol

import sqlalchemy as sa

#: In the ``info`` of a connection: who waits for the end of its transaction, and why that may not be a COMMIT.
_WAITERS: Final = "aijobs_waiters"
_REFUSAL: Final = "aijobs_refusal"

#: Attribute of a dialect that tells and refuses.
_WATCHES: Final = "_aijobs_watches"

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
    _watch(conn.dialect)


def refuse_commit(conn: sa.Connection, error: Callable[[], Exception]) -> None:
    """Let the transaction of ``conn`` end in a ROLLBACK alone: its COMMIT sends that and raises ``error()``."""
    conn.info[_REFUSAL] = error
    _watch(conn.dialect)


def forget_outcome(info: dict[Any, Any]) -> None:
    """The transaction of the connection that has this ``info`` was rolled back."""
    info.pop(_WAITERS, None)
    info.pop(_REFUSAL, None)


def watch_outcomes(dialect: Any) -> None:
    """Replace the methods of ``dialect`` that end transactions; doing so twice changes nothing."""
    commit, rollback = dialect.do_commit, dialect.do_rollback
    prepare = dialect.do_prepare_twophase
    commit_twophase, rollback_twophase = dialect.do_commit_twophase, dialect.do_rollback_twophase
    rollback_to_savepoint = dialect.do_rollback_to_savepoint

    def do_commit(connection: Any) -> None:
        # The transaction counts as ended once COMMIT was tried: a ROLLBACK of the caller's would not be sent.
        info = _info(connection)
        _refuse(info, lambda: do_rollback(connection))
        _tell(info, lambda: commit(connection))

    def do_rollback(connection: Any) -> None:
        forget_outcome(_info(connection))
        rollback(connection)

    def do_prepare_twophase(conn: Any, xid: Any) -> None:
        _refuse(conn.info, lambda: None)
        prepare(conn, xid)

    def do_commit_twophase(conn: Any, xid: Any, *how: Any, **also: Any) -> None:
        _refuse(conn.info, lambda: do_rollback_twophase(conn, xid, False))
        _tell(conn.info, lambda: commit_twophase(conn, xid, *how, **also))

    def do_rollback_twophase(conn: Any, xid: Any, *how: Any, **also: Any) -> None:
        forget_outcome(conn.info)
        rollback_twophase(conn, xid, *how, **also)

    def do_rollback_to_savepoint(conn: Any, name: str) -> None:
        for waiter in conn.info.get(_WAITERS, ()):
            waiter.doubt()
        rollback_to_savepoint(conn, name)

    dialect.do_rollback, dialect.do_rollback_twophase = do_rollback, do_rollback_twophase
    dialect.do_rollback_to_savepoint = do_rollback_to_savepoint
    dialect.do_prepare_twophase = do_prepare_twophase
    dialect.do_commit, dialect.do_commit_twophase = do_commit, do_commit_twophase
    setattr(dialect, _WATCHES, True)


def _watch(dialect: sa.Dialect) -> None:
    if getattr(dialect, _WATCHES, False):
        return
    with _replacing:
        if not getattr(dialect, _WATCHES, False):
            watch_outcomes(dialect)


def _info(connection: Any) -> dict[Any, Any]:
    """What is known of a pooled connection; nothing of that with which SQLAlchemy looks at a server at first."""
    try:
        info: dict[Any, Any] = connection.info
    except NotImplementedError:
        return {}
    return info


def _refuse(info: dict[Any, Any], rollback: Callable[[], None]) -> None:
    error: Callable[[], Exception] | None = info.get(_REFUSAL)
    if error is not None:
        rollback()
        raise error()


def _tell(info: dict[Any, Any], commit: Callable[[], None]) -> None:
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


def _after_fork() -> None:
    """A thread that held it in the parent is not here to let go of it."""
    global _replacing
    _replacing = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
