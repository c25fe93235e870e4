"""Joining a caller's transaction: which ones can carry a job, and what happens when it is lost.

We never commit it and never retry in it. After a database error in it nothing of it may be kept: on MySQL a
lock wait undoes one statement and leaves the rest open (CI-8), so its COMMIT is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
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
from outbox.base.outcome import refuse_commit, tell_outcome
from registry.errors import AiJobsError

if TYPE_CHECKING:
    from sqlalchemy.orm import Session, scoped_session

CallerSession: TypeAlias = "Session | scoped_session[Session] | sa.Connection"


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
        _lose(conn)
        raise CallerTransactionLostError(
            f"the database refused a statement ({classify(error)}); roll this transaction back and run it again"
        ) from error
    except AiJobsError:
        # An answer, with nothing left half done: the caller may go on.
        raise
    except BaseException:
        # Cut short, as by a signal handler of the caller's, perhaps between a job and its event.
        _lose(conn)
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


def _lose(conn: sa.Connection) -> None:
    """Nothing of this transaction may be kept: its COMMIT is refused, whoever asks for it."""
    # One without a driver's connection commits nothing anyway.
    if not (conn.closed or conn.invalidated):
        refuse_commit(conn, CallerTransactionLostError)
