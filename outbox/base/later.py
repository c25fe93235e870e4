"""Writes whose answer nobody waits for: kept, and sent in one trip with the COMMIT that follows (design 14).

MariaDB takes several statements as one (``BEGIN NOT ATOMIC``). Their order is kept: whatever else is sent on
the connection goes after them. On other databases, and on engines that are not ours, each is sent at once.

A write may say how many rows it is to change. The server itself then counts them before it goes on to the
COMMIT, so that a decision made about rows holds when it is stored, or nothing is. One that answers with rows
(``RETURNING``) has them ready when it was sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import sqlalchemy as sa

from outbox.base.text import send

#: Text that may be kept, in bytes: one packet has to hold it, and 16 MB is what servers take by default.
MAX_KEPT: Final = 1_000_000

#: Attribute of a dialect whose connections may keep writes, and of a driver's connection with those it keeps.
_KEEPS: Final = "_aijobs_keeps_writes"
_KEPT: Final = "_aijobs_kept_writes"

#: What a dialect tells before each statement.
_EXECUTING: Final = ("do_execute", "do_execute_no_params", "do_executemany")

#: What the server is told to say of a count that is not met, and the number it says it under.
_SHORT: Final = "aijobs: rows were changed by somebody else"
_SIGNAL: Final = 1644


class Shortfall(Exception):
    """A write changed other rows than its unit had counted on; the unit is to be rolled back."""

    def __init__(self) -> None:
        super().__init__(_SHORT)


class Answer:
    """The rows that a write answers with, once it was sent."""

    def __init__(self) -> None:
        self._rows: Sequence[Sequence[Any]] | None = None

    def take(self, rows: Sequence[Sequence[Any]]) -> None:
        """The write was sent, and these came back."""
        self._rows = rows

    @property
    def rows(self) -> Sequence[Sequence[Any]]:
        """As the driver gives them."""
        assert self._rows is not None, "the write was not sent yet"
        return self._rows


class _Kept(NamedTuple):
    """A statement with its values in it, and who waits for its rows."""

    text: str
    answer: Answer | None


def keep_writes(engine: sa.Engine) -> None:
    """Let connections of ``engine`` keep what :func:`write_later` is given, where their server can take it."""
    dialect: Any = engine.dialect
    if dialect.driver != "pymysql" or any(getattr(dialect.dispatch, event) for event in _EXECUTING):
        # Listeners that are there already may execute a statement themselves; ours would not be asked then.
        return
    setattr(dialect, _KEEPS, True)
    for event in _EXECUTING:
        sa.event.listen(engine, event, _send_first)
    commit, rollback = dialect.do_commit, dialect.do_rollback

    def commit_with_kept(connection: Any) -> None:
        kept = _take(connection.dbapi_connection)
        if kept:
            _commit(connection, kept)
        else:
            commit(connection)

    def rollback_without_kept(connection: Any) -> None:
        _take(connection.dbapi_connection)
        rollback(connection)

    # On the dialect, which copies of the engine share, and whose ROLLBACK is also that of its pool.
    dialect.do_commit, dialect.do_rollback = commit_with_kept, rollback_without_kept


def keeps(dialect: sa.Dialect) -> bool:
    """Whether writes wait for their COMMIT; a dialect knows its server once it was connected."""
    return bool(getattr(dialect, _KEEPS, False) and getattr(dialect, "is_mariadb", False))


def write_later(
    conn: sa.Connection,
    statement: str,
    parameters: Iterable[Any],
    *,
    expect: int | None = None,
    answer: Answer | None = None,
) -> None:
    """Run a text of :func:`~outbox.base.text.positional`, at the latest with the COMMIT of ``conn``.

    An error of it is raised by whatever is sent next on the connection: in a transaction of our own that is
    the unit's own business, in a caller's :func:`send_kept` ends it. With ``expect`` any other number of rows
    is such an error, a :class:`Shortfall`; of a SELECT, rows that it finds. The rows of a statement that has some
    go to ``answer``.
    """
    if not keeps(conn.dialect):
        result = send(conn, statement, parameters)
        if answer is not None:
            answer.take(result.fetchall())
        if expect is not None and expect != (result.rowcount if answer is None else len(answer.rows)):
            raise Shortfall
        return
    if not conn.in_transaction():
        # What is kept belongs to a transaction, which nothing but a statement would begin by itself.
        conn.begin()
    connection: Any = conn.connection.dbapi_connection
    with connection.cursor() as cursor:
        text = cursor.mogrify(statement, tuple(parameters))
    if expect is not None:
        count = "ROW_COUNT()" if answer is None else "FOUND_ROWS()"
        text += f"; IF {count} <> {expect} THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = '{_SHORT}'; END IF"
    kept: list[_Kept] = getattr(connection, _KEPT, [])
    if sum(len(each.text) for each in kept) + len(text) > MAX_KEPT:
        send_kept(conn)
        kept = []
    setattr(connection, _KEPT, [*kept, _Kept(text, answer)])


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


def _take(connection: Any) -> list[_Kept]:
    kept: list[_Kept] = getattr(connection, _KEPT, [])
    if kept:
        setattr(connection, _KEPT, [])
    return kept


def _commit(pooled: Any, kept: list[_Kept]) -> None:
    try:
        _run(pooled.dbapi_connection, [*kept, _Kept("COMMIT", None)])
    except Exception:
        # SQLAlchemy takes a transaction for ended once its COMMIT was tried, and would send no ROLLBACK.
        try:
            pooled.dbapi_connection.rollback()
        except Exception:  # noqa: BLE001 - the first error is the one to tell
            # Whoever had this connection next would commit what is open.
            pooled.invalidate(soft=True)
        raise


def _run(connection: Any, kept: list[_Kept]) -> None:
    try:
        with connection.cursor() as cursor:
            cursor.execute(f"BEGIN NOT ATOMIC {'; '.join(each.text for each in kept)}; END")
            for answer in [each.answer for each in kept if each.answer is not None]:
                answer.take(cursor.fetchall())
                # What went wrong after this statement is said here.
                cursor.nextset()
    except Exception as error:
        if error.args == (_SIGNAL, _SHORT):
            raise Shortfall from None
        error.add_note(
            "It belongs to a write that was kept for the COMMIT, not to the statement named here."
        )
        raise
