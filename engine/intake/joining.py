"""Joining a caller's transaction: which ones can carry a job, and what happens when it is lost.

We never commit it and never retry in it. After a database error in it nothing of it may be kept: on MySQL a
lock wait undoes one statement and leaves the rest open (CI-8), so the session refuses to commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

import sqlalchemy as sa
from sqlalchemy.orm import Session, SessionTransaction

from engine.errors import (
    CallerTransactionLostError,
    InvalidCreateFieldError,
    TransactionNotSupportedError,
)
from outbox.base.db import classify, is_prepared

CallerSession = Session | sa.Connection

_STATE = "aijobs"
_watched_pools: WeakSet[sa.Pool] = WeakSet()


@contextmanager
def joined(session: CallerSession, *, after_commit: Callable[[], None]) -> Iterator[sa.Connection]:
    """The caller's connection, for statements of ours; ``after_commit`` runs after the outermost commit.

    Raises :class:`TransactionNotSupportedError` before any statement, and
    :class:`CallerTransactionLostError` after one that the database refused.
    """
    conn = _connection(session)
    try:
        _check(conn)
        yield conn
    except sa.exc.DBAPIError as error:
        _poison(session)
        raise CallerTransactionLostError(
            f"the database refused a statement ({classify(error)}); roll this transaction back and run it again"
        ) from error
    _watch(session, conn, after_commit)


def _connection(session: CallerSession) -> sa.Connection:
    if isinstance(session, sa.Connection):
        return session
    if isinstance(session, Session):
        return session.connection()
    raise InvalidCreateFieldError(
        f"session: must be a SQLAlchemy Session or Connection, not {type(session).__name__}; "
        "for an AsyncSession use acreate_job",
        field="session",
    )


def _check(conn: sa.Connection) -> None:
    name = conn.dialect.name
    if name == "sqlite" and not is_prepared(conn.engine):
        raise TransactionNotSupportedError(
            "this SQLite engine begins its transactions deferred, where two writers fail at once; call "
            "outbox.base.db.prepare_engine(engine) when you create it"
        )
    if name == "postgresql" and conn.get_isolation_level() not in ("READ COMMITTED", "AUTOCOMMIT"):
        raise TransactionNotSupportedError(
            "this PostgreSQL transaction is above READ COMMITTED, where the loser of a race on one "
            "idempotency key cannot see the winner; create the job in a READ COMMITTED transaction"
        )


# ------------------------------------------------------------------ after the outermost commit


def _watch(session: CallerSession, conn: sa.Connection, after_commit: Callable[[], None]) -> None:
    if isinstance(session, Session):
        _session_state(session)["hint"] = after_commit
    else:
        # Its commit event fires before COMMIT is sent, so the hint waits for the return to the pool.
        conn.info[_STATE] = after_commit
        _watch_pool(conn.engine.pool)


def _watch_pool(pool: sa.Pool) -> None:
    if pool not in _watched_pools:
        _watched_pools.add(pool)
        sa.event.listen(pool, "checkin", _on_checkin)


def _on_checkin(_dbapi_connection: Any, record: Any) -> None:
    hint = record.info.pop(_STATE, None)
    if hint is not None:
        hint()


def _session_state(session: Session) -> dict[str, Any]:
    """What we know of this session's present transaction; the first call installs the listeners."""
    state: dict[str, Any] | None = session.info.get(_STATE)
    if state is None:
        state = session.info[_STATE] = {}
        sa.event.listen(session, "before_commit", _before_commit)
        sa.event.listen(session, "after_commit", _after_commit)
        sa.event.listen(session, "after_transaction_end", _after_end)
    return state


def _before_commit(session: Session) -> None:
    if session.info[_STATE].get("lost"):
        raise CallerTransactionLostError()


def _after_commit(session: Session) -> None:
    # It also fires when a savepoint is released; only the outermost commit counts.
    if not session.in_nested_transaction():
        session.info[_STATE]["committed"] = True


def _after_end(session: Session, transaction: SessionTransaction) -> None:
    if transaction.parent is not None:
        return
    state = session.info[_STATE]
    hint = state.get("hint") if state.get("committed") else None
    state.clear()
    if hint is not None:
        hint()


# ------------------------------------------------------------------ a lost transaction


def _poison(session: CallerSession) -> None:
    if isinstance(session, Session):
        _session_state(session)["lost"] = True
    elif not session.info.get("aijobs_lost"):
        session.info["aijobs_lost"] = True
        sa.event.listen(session, "commit", _refuse_commit)
        sa.event.listen(session, "rollback", _forgive)


def _refuse_commit(conn: sa.Connection) -> None:
    if conn.info.get("aijobs_lost"):
        raise CallerTransactionLostError()


def _forgive(conn: sa.Connection) -> None:
    conn.info.pop("aijobs_lost", None)
