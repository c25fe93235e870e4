"""A transaction that stands still is ended by the server: a frozen process must not keep its rows for ever.

A process that dies closes its connections, and the server rolls back at once. One that is frozen, or cut off
without a word, does not: whoever needs its rows would wait until it wakes up.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa


def end_idle_transactions(engine: sa.Engine, after_ms: int) -> sa.Engine:
    """Have every transaction of ``engine`` ended that is idle for ``after_ms``; 0 is no limit.

    PostgreSQL and MariaDB; MySQL knows no such limit, and on SQLite only the process itself could end it.
    To a process that goes on later it is a lost connection like any other.
    """
    statement = _statement(engine.dialect.name, after_ms)

    def limit(dbapi_connection: Any, _record: Any) -> None:
        cursor = dbapi_connection.cursor()
        try:
            cursor.execute(statement)
        finally:
            cursor.close()
        dbapi_connection.commit()

    if after_ms and statement:
        sa.event.listen(engine, "connect", limit)
    return engine


def _statement(dialect: str, after_ms: int) -> str:
    if dialect == "postgresql":
        return f"SET idle_in_transaction_session_timeout = '{after_ms}ms'"
    if dialect in ("mysql", "mariadb"):
        # MariaDB's alone, in whole seconds; MySQL reads a comment.
        seconds = max(1, round(after_ms / 1000))
        return f"SET /*M!100300 SESSION idle_transaction_timeout = {seconds}, */ @aijobs = 1"
    return ""
