"""What foreign code may not send in a transaction of the engine's: statements that would end it.

A projector is lent such a transaction, and so is a commit that a handler makes itself. The statements are refused
before they leave. Afterwards it would be too late: the job could stand as succeeded without its output, and the
business rows without their job. MySQL and MariaDB commit before most changes of the schema, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

#: Takes what was done, as in "sent COMMIT, which ...", and names in an error who has done it.
Refuse = Callable[[str], Exception]

_SKIPPED: Final = r"(?:\s|;|/\*(?!!).*?\*/|--[^\n]*\n|\#[^\n]*\n)*"
_ENDING: Final = (
    r"COMMIT|END|ABORT|BEGIN|START\s+TRANSACTION|PREPARE\s+TRANSACTION|XA"
    r"|ROLLBACK(?!\s+(?:WORK\s+|TRANSACTION\s+)?TO)"
    r"|SET\s+(?:SESSION\s+|LOCAL\s+|@@(?:SESSION\.|LOCAL\.)?)?AUTOCOMMIT"
)
_SCHEMA: Final = (
    r"(?:CREATE|DROP)(?!\s+(?:OR\s+REPLACE\s+)?TEMPORARY)|ALTER|TRUNCATE|RENAME|GRANT|REVOKE"
    r"|LOCK\s+TABLES?|UNLOCK\s+TABLES?|ANALYZE|OPTIMIZE|REPAIR|CHECK\s+TABLES?|FLUSH"
)
_REFUSED: Final = {
    mysql: re.compile(
        rf"{_SKIPPED}({_ENDING}|{_SCHEMA if mysql else '(?!)'})\b", re.IGNORECASE | re.DOTALL
    )
    for mysql in (False, True)
}


@contextmanager
def lent_session(conn: sa.Connection, *, refuse: Refuse) -> Iterator[Session]:
    """A Session in the transaction of ``conn``, for code that may not end it; flushed on the way out.

    ``session.commit()`` stays without effect, and closing leaves the transaction open. Whatever does end it
    raises what ``refuse`` makes; the caller must roll back then.
    """
    # Only here: a process whose jobs write no rows of their own needs no ORM.
    from sqlalchemy.orm import Session

    before = conn.get_transaction()
    with (
        Session(conn, join_transaction_mode="rollback_only", expire_on_commit=False) as session,
        _transaction_kept(conn, refuse),
    ):
        yield session
        session.flush()
    if conn.get_transaction() is not before or before is None or not before.is_active:
        raise refuse("ended the transaction, which belongs to the engine")


@contextmanager
def _transaction_kept(conn: sa.Connection, refuse: Refuse) -> Iterator[None]:
    """Within, ``conn`` raises for a statement that ends its transaction."""
    refused = _REFUSED[conn.dialect.name in ("mysql", "mariadb")]

    def look(_conn: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if found := refused.match(statement):
            verb = " ".join(found[1].upper().split())
            raise refuse(f"sent {verb}, which ends the transaction; it belongs to the engine")

    def undo(_conn: Any) -> None:
        # SQLAlchemy takes the transaction for over by now, and what is open would go to the connection's next user.
        conn.invalidate()
        raise refuse("committed the transaction, which belongs to the engine")

    sa.event.listen(conn, "before_cursor_execute", look)
    sa.event.listen(conn, "commit", undo)
    try:
        yield
    finally:
        sa.event.remove(conn, "before_cursor_execute", look)
        sa.event.remove(conn, "commit", undo)
