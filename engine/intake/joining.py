"""Joining a caller's transaction: which ones can carry a job, and what happens when it is lost.

We never commit it and never retry in it. After a database error in it nothing of it may be kept: on MySQL a
lock wait undoes one statement and leaves the rest open (CI-8), so the session refuses to commit.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakSet

import sqlalchemy as sa

from engine.errors import (
    CallerTransactionLostError,
    InvalidCreateFieldError,
    TransactionNotSupportedError,
)
from engine.intake.wake import AfterCommit
from outbox.base.db import classify, is_prepared
from outbox.base.later import send_kept
from registry.errors import AiJobsError

if TYPE_CHECKING:
    from sqlalchemy.orm import Session, SessionTransaction, scoped_session

CallerSession: TypeAlias = "Session | scoped_session[Session] | sa.Connection"

_STATE = "aijobs"
_watched_pools: WeakSet[sa.Pool] = WeakSet()


@contextmanager
def joined(
    session: CallerSession, *, after_commit: AfterCommit | None = None
) -> Iterator[sa.Connection]:
    """The caller's connection, for statements of ours; ``after_commit`` runs after the outermost commit, once.

    Raises :class:`TransactionNotSupportedError` before any statement, and
    :class:`CallerTransactionLostError` after one that the database refused.
    """
    session = _unscoped(session)
    conn = session if isinstance(session, sa.Connection) else session.connection()
    try:
        _check(conn)
        yield conn
        send_kept(conn)
    except sa.exc.DBAPIError as error:
        _poison(session)
        raise CallerTransactionLostError(
            f"the database refused a statement ({classify(error)}); roll this transaction back and run it again"
        ) from error
    except AiJobsError:
        # An answer, with nothing left half done: the caller may go on.
        raise
    except BaseException:
        # Cut short, as by a signal handler of the caller's, perhaps between a job and its event.
        _poison(session)
        raise
    if after_commit is not None:
        _watch(session, conn, after_commit)


def _unscoped(session: CallerSession) -> Session | sa.Connection:
    if isinstance(session, sa.Connection):
        return session
    # Only here: who has a Session has loaded the ORM.
    from sqlalchemy.orm import Session, scoped_session

    if isinstance(session, scoped_session):
        session = session()
    if isinstance(session, Session):
        return session
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
    if _is_autocommit(conn):
        raise TransactionNotSupportedError(
            "this connection is in AUTOCOMMIT, where job and event would be stored one without the other; "
            "create the job in a transaction"
        )
    if name == "postgresql" and conn.get_isolation_level() != "READ COMMITTED":
        raise TransactionNotSupportedError(
            "this PostgreSQL transaction is above READ COMMITTED, where the loser of a race on one "
            "idempotency key cannot see the winner; create the job in a READ COMMITTED transaction"
        )


def _is_autocommit(conn: sa.Connection) -> bool:
    # On a prepared SQLite engine the driver is always in autocommit and we begin transactions ourselves.
    dbapi_connection = conn.connection.dbapi_connection
    if conn.dialect.name == "sqlite" or dbapi_connection is None:
        return False
    return conn.dialect.detect_autocommit_setting(dbapi_connection)


# ------------------------------------------------------------------ after the outermost commit


def _watch(session: Session | sa.Connection, conn: sa.Connection, after_commit: AfterCommit) -> None:
    if not isinstance(session, sa.Connection):
        _session_state(session).setdefault("hints", {})[after_commit] = conn
    else:
        # Its commit event fires before COMMIT is sent, so the hint waits for the next transaction or the return
        # to the pool.
        conn.info.setdefault(_STATE, {"hints": {}})["hints"][after_commit] = None
        _watch_engine(conn.engine)


def _watch_engine(engine: sa.Engine) -> None:
    if engine.pool not in _watched_pools:
        _watched_pools.add(engine.pool)
        sa.event.listen(engine, "begin", _on_begin)
        sa.event.listen(engine, "commit", _on_commit)
        sa.event.listen(engine, "rollback", _on_rollback)
        sa.event.listen(engine, "rollback_savepoint", _on_soft_rollback)
        sa.event.listen(engine.pool, "checkin", _on_checkin)


def _on_begin(conn: sa.Connection) -> None:
    # Some keep one connection for ever.
    _send_committed(conn.info)


def _on_commit(conn: sa.Connection) -> None:
    state = conn.info.get(_STATE)
    if state is not None:
        state["committed"] = True


def _on_rollback(conn: sa.Connection) -> None:
    state = conn.info.get(_STATE)
    if state is not None and not state.get("committed"):
        state["hints"].clear()
    _doubt(state)


def _on_soft_rollback(conn: sa.Connection, _name: str, _context: Any) -> None:
    _doubt(conn.info.get(_STATE))


def _on_checkin(_dbapi_connection: Any, record: Any) -> None:
    _send_committed(record.info)


def _send_committed(info: dict[Any, Any]) -> None:
    state = info.pop(_STATE, None) or {}
    if state.get("committed"):
        _send(state)


def _send(state: dict[str, Any]) -> None:
    for hint in state.get("hints", ()):
        hint()


def _doubt(state: dict[str, Any] | None) -> None:
    """Some of the jobs may be gone, by a rollback to a savepoint or after a COMMIT that was not answered."""
    for hint in (state or {}).get("hints", ()):
        hint.doubt()


def _session_state(session: Session) -> dict[str, Any]:
    """What we know of this session's present transaction; the first call installs the listeners."""
    state: dict[str, Any] | None = session.info.get(_STATE)
    if state is None:
        state = session.info[_STATE] = {}
        sa.event.listen(session, "before_commit", _before_commit)
        sa.event.listen(session, "after_commit", _after_commit)
        sa.event.listen(session, "after_soft_rollback", _after_soft_rollback)
        sa.event.listen(session, "after_transaction_end", _after_end)
    return state


def _before_commit(session: Session) -> None:
    if session.info[_STATE].get("lost"):
        raise CallerTransactionLostError()


def _after_commit(session: Session) -> None:
    # It also fires when a savepoint is released; only the outermost commit counts.
    if not session.in_nested_transaction():
        session.info[_STATE]["committed"] = True


def _after_soft_rollback(session: Session, _transaction: SessionTransaction) -> None:
    _doubt(session.info[_STATE])


def _after_end(session: Session, transaction: SessionTransaction) -> None:
    if transaction.parent is not None:
        return
    state = dict(session.info[_STATE])
    session.info[_STATE].clear()
    if any(conn.in_transaction() for conn in state.get("hints", {}).values()):
        # The session lives in a transaction of its caller's, which is still to be committed.
        _doubt(state)
    if state.get("committed"):
        _send(state)


# ------------------------------------------------------------------ a lost transaction


def _poison(session: Session | sa.Connection) -> None:
    if not isinstance(session, sa.Connection):
        _session_state(session)["lost"] = True
    elif not (session.closed or session.invalidated):
        # One without a driver's connection commits nothing anyway.
        session.info["aijobs_lost"] = True
        if not sa.event.contains(session, "commit", _refuse_commit):
            sa.event.listen(session, "commit", _refuse_commit)
            sa.event.listen(session, "rollback", _forgive)


def _refuse_commit(conn: sa.Connection) -> None:
    if conn.info.get("aijobs_lost"):
        # The transaction counts as ended once COMMIT was tried: a ROLLBACK of the caller's would not be sent.
        conn.dialect.do_rollback(conn.connection)
        _forgive(conn)
        raise CallerTransactionLostError()


def _forgive(conn: sa.Connection) -> None:
    conn.info.pop("aijobs_lost", None)
    conn.info.pop(_STATE, None)
