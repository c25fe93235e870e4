"""Writes whose answer nobody waits for: kept, and sent in one trip with the COMMIT that follows (design 14).

MariaDB takes several statements as one (``BEGIN NOT ATOMIC``). Their order is kept: whatever else is sent on
the connection goes after them. On other databases, and on engines that are not ours, each is sent at once.

A write may say how many rows it is to change. The server itself then counts them before it goes on to the
COMMIT, so that a decision made about rows holds when it is stored, or nothing is.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final

import sqlalchemy as sa

from outbox.base.text import send

#: Text that may be kept, in bytes: one packet has to hold it, and 16 MB is what servers take by default.
MAX_KEPT: Final = 1_000_000

#: Attribute of a dialect whose connections may keep writes, and of a driver's connection with those it keeps.
_KEEPS: Final = "_aijobs_keeps_writes"
_KEPT: Final = "_aijobs_kept_writes"

#: What the server is told to say of a count that is not met, and the number it says it under.
_SHORT: Final = "aijobs: rows were changed by somebody else"
_SIGNAL: Final = 1644


class Shortfall(Exception):
    """A write changed other rows than its unit had counted on; the unit is to be rolled back."""

    def __init__(self) -> None:
        super().__init__(_SHORT)


def keep_writes(engine: sa.Engine) -> None:
    """Let connections of ``engine`` keep what :func:`write_later` is given, where their server can take it."""
    dialect: Any = engine.dialect
    if dialect.driver != "pymysql":
        return
    setattr(dialect, _KEEPS, True)
    for event in ("do_execute", "do_execute_no_params", "do_executemany"):
        sa.event.listen(engine, event, _send_first)
    sa.event.listen(engine, "rollback", _forget)
    commit = dialect.do_commit

    def commit_with_kept(connection: Any) -> None:
        kept = _take(connection.dbapi_connection)
        if kept:
            _commit(connection.dbapi_connection, kept)
        else:
            commit(connection)

    dialect.do_commit = commit_with_kept


def write_later(
    conn: sa.Connection, statement: str, parameters: Iterable[Any], *, expect: int | None = None
) -> None:
    """Run a text of :func:`~outbox.base.text.positional`, at the latest with the COMMIT of ``conn``.

    An error of it is raised by whatever is sent next on the connection: in a transaction of our own that is
    the unit's own business, in a caller's :func:`send_kept` ends it. With ``expect`` any other number of rows
    is such an error, a :class:`Shortfall`.
    """
    if not (getattr(conn.dialect, _KEEPS, False) and getattr(conn.dialect, "is_mariadb", False)):
        if send(conn, statement, parameters).rowcount != expect and expect is not None:
            raise Shortfall
        return
    if not conn.in_transaction():
        # What is kept belongs to a transaction, which nothing but a statement would begin by itself.
        conn.begin()
    connection: Any = conn.connection.dbapi_connection
    with connection.cursor() as cursor:
        text = cursor.mogrify(statement, tuple(parameters))
    if expect is not None:
        text += f"; IF ROW_COUNT() <> {expect} THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = '{_SHORT}'; END IF"
    kept: list[str] = getattr(connection, _KEPT, [])
    if sum(map(len, kept)) + len(text) > MAX_KEPT:
        send_kept(conn)
        kept = []
    setattr(connection, _KEPT, [*kept, text])


def send_kept(conn: sa.Connection) -> None:
    """Send now what ``conn`` keeps."""
    if getattr(conn.connection.dbapi_connection, _KEPT, None):
        # Any statement takes it along; an error is then SQLAlchemy's, as of every other statement.
        conn.exec_driver_sql("DO 0")


def forget(connection: Any) -> None:
    """Drop what this driver's connection keeps."""
    _take(connection)


def _send_first(cursor: Any, *_statement: Any) -> None:
    kept = _take(cursor.connection)
    if kept:
        _run(cursor.connection, kept)


def _forget(conn: sa.Connection) -> None:
    if not conn.invalidated:
        _take(conn.connection.dbapi_connection)


def _take(connection: Any) -> list[str]:
    kept: list[str] = getattr(connection, _KEPT, [])
    if kept:
        setattr(connection, _KEPT, [])
    return kept


def _commit(connection: Any, kept: list[str]) -> None:
    try:
        _run(connection, [*kept, "COMMIT"])
    except Exception:
        # SQLAlchemy takes a transaction for ended once its COMMIT was tried, and would send no ROLLBACK.
        with suppress(Exception):
            connection.rollback()
        raise


def _run(connection: Any, statements: list[str]) -> None:
    try:
        with connection.cursor() as cursor:
            cursor.execute(f"BEGIN NOT ATOMIC {'; '.join(statements)}; END")
    except Exception as error:
        if error.args == (_SIGNAL, _SHORT):
            raise Shortfall from None
        error.add_note(
            "It belongs to a write that was kept for the COMMIT, not to the statement named here."
        )
        raise
