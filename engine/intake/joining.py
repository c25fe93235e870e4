"""Joining a caller's transaction: which ones can carry a job, and what happens when it is lost.

We never commit it and never retry in it. After a database error in it nothing of it may be kept: on MySQL a
lock wait undoes one statement and leaves the rest open (CI-8), so the session refuses to commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

import sqlalchemy as sa

from engine.errors import (
    CallerTransactionLostError,
    InvalidCreateFieldError,
    TransactionNotSupportedError,
)
from engine.intake.wake import AfterCommit
from outbox.base.db import classify, is_prepared
from outbox.base.later import send_kept
from outbox.base.outcome import tell_outcome
from registry.errors import AiJobsError

if TYPE_CHECKING:
    from sqlalchemy.orm import Session, SessionTransaction, scoped_session

CallerSession: TypeAlias = "Session | scoped_session[Session] | sa.Connection"

_LOST = "aijobs_lost"


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
        tell_outcome(conn, after_commit)


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


# ------------------------------------------------------------------ a lost transaction


def _poison(session: Session | sa.Connection) -> None:
    if isinstance(session, sa.Connection):
        # One without a driver's connection commits nothing anyway.
        if not (session.closed or session.invalidated):
            session.info[_LOST] = True
            _listen(session, ("commit", _refuse_commit), ("rollback", _forgive))
    else:
        session.info[_LOST] = True
        _listen(session, ("before_commit", _before_commit), ("after_transaction_end", _after_end))


def _listen(target: Session | sa.Connection, *listeners: tuple[str, Callable[..., None]]) -> None:
    for event, act in listeners:
        if not sa.event.contains(target, event, act):
            sa.event.listen(target, event, act)


def _before_commit(session: Session) -> None:
    if session.info.get(_LOST):
        raise CallerTransactionLostError()


def _after_end(session: Session, transaction: SessionTransaction) -> None:
    if transaction.parent is None:
        session.info.pop(_LOST, None)


def _refuse_commit(conn: sa.Connection) -> None:
    if conn.info.get(_LOST):
        # The transaction counts as ended once COMMIT was tried: a ROLLBACK of the caller's would not be sent.
        conn.dialect.do_rollback(conn.connection)
        _forgive(conn)
        raise CallerTransactionLostError()


def _forgive(conn: sa.Connection) -> None:
    conn.info.pop(_LOST, None)
