"""What a projector may not send: statements that would end the transaction, which is the engine's.

They are refused before they leave. Afterwards it would be too late: the job could stand as succeeded without its
output, and the business rows without their job. MySQL and MariaDB commit before most changes of the schema, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import sqlalchemy as sa

from projectors.errors import ProjectionTransactionEnded

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
def transaction_kept(conn: sa.Connection, *, key: str) -> Iterator[None]:
    """Within, ``conn`` raises :class:`ProjectionTransactionEnded` for a statement that ends its transaction."""
    refused = _REFUSED[conn.dialect.name in ("mysql", "mariadb")]

    def look(_conn: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if found := refused.match(statement):
            verb = " ".join(found[1].upper().split())
            raise ProjectionTransactionEnded(
                f"projector {key!r} sent {verb}, which ends the transaction; it belongs to the engine",
                key=key,
            )

    def undo(_conn: Any) -> None:
        # SQLAlchemy takes the transaction for over by now, and what is open would go to the connection's next user.
        conn.invalidate()
        raise ProjectionTransactionEnded(
            f"projector {key!r} committed the transaction, which belongs to the engine", key=key
        )

    sa.event.listen(conn, "before_cursor_execute", look)
    sa.event.listen(conn, "commit", undo)
    try:
        yield
    finally:
        sa.event.remove(conn, "before_cursor_execute", look)
        sa.event.remove(conn, "commit", undo)
