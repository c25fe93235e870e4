"""What a database error means for the unit of work that it ended."""

from __future__ import annotations

import re
from typing import Any, Final, Literal

import sqlalchemy as sa

from outbox.base.errors import (
    DatabaseContention,
    DatabaseError,
    DatabaseLoginRefused,
    DatabaseMissing,
    DatabaseUnavailable,
)

#: "contention": the whole unit runs again. "lost": the connection is gone, or none could be had.
Kind = Literal["contention", "lost", "other"]

#: MySQL 1020 is what MariaDB 11.6+ says where older ones said nothing (DB-2); 1205 leaves the transaction
#: open, so it is rolled back like a deadlock (CI-8).
_MYSQL_CONTENTION: Final = frozenset({1020, 1205, 1213, 1614, 3101})
_MYSQL_LOST: Final = frozenset(
    {1040, 1053, 1077, 1152, 1153, 1158, 1159, 1160, 1161, 1184, 1203, 1927}
    | {2000, 2002, 2003, 2006, 2013, 2014, 2055, 4031}
)
#: A statement that somebody ended, or that took too long. One that holds its COMMIT may have been over that already.
_MYSQL_INTERRUPTED: Final = frozenset({1317, 1969, 3024})
#: A server that runs and lets nobody in: no such database; no right to it, wrong user or password.
_MYSQL_MISSING: Final = 1049
_MYSQL_REFUSED: Final = frozenset({1044, 1045, 1698})
#: The same of PostgreSQL, which gives the state of a refused connection to no driver, only its words.
_POSTGRESQL_MISSING: Final = re.compile(r'FATAL:\s+(database ".*?" does not exist)')
_POSTGRESQL_REFUSED: Final = re.compile(
    r'FATAL:\s+(role ".*?" does not exist|(?:password|peer|ident|\w+) authentication failed for user ".*?"'
    r'|no pg_hba.conf entry for [^\n]*|role ".*?" is not permitted to log in|permission denied for database[^\n]*)'
    r"|(no password supplied)"
)
_POSTGRESQL_CONTENTION: Final = frozenset({"40001", "40P01", "55P03"})
#: Connection trouble and shutdowns by class, too many connections by code; not a cancelled statement.
_POSTGRESQL_LOST_CLASSES: Final = ("08", "57")
_POSTGRESQL_LOST: Final = frozenset({"53300"})
_POSTGRESQL_CANCELLED: Final = "57014"


def classify(error: BaseException) -> Kind:
    """What a database error means for the unit; "other" for all that running it again cannot mend."""
    if not isinstance(error, sa.exc.DBAPIError):
        return "other"
    if error.connection_invalidated:
        return "lost"
    cause: Any = error.orig
    module = type(cause).__module__
    if module.startswith(("sqlite3", "aiosqlite")):
        return _sqlite(str(cause))
    code = cause.args[0] if cause is not None and cause.args else None
    if isinstance(code, int):
        # asked first: PyMySQL's errors have an SQLSTATE too, and it says less ("HY000" for a lock wait)
        return _mysql(error, code)
    state = getattr(cause, "sqlstate", None)
    if state is not None:
        return _postgresql(state)
    # without a state it comes from psycopg itself: no server, or no longer
    client = module.startswith("psycopg") and isinstance(error, sa.exc.OperationalError)
    return "lost" if client else "other"


def _postgresql(state: str) -> Kind:
    if state in _POSTGRESQL_CONTENTION:
        return "contention"
    if state == _POSTGRESQL_CANCELLED:
        return "other"
    lost = state in _POSTGRESQL_LOST or state.startswith(_POSTGRESQL_LOST_CLASSES)
    return "lost" if lost else "other"


def _sqlite(text: str) -> Kind:
    if "is locked" in text:
        return "contention"
    return "lost" if "unable to open database file" in text else "other"


def _mysql(error: sa.exc.DBAPIError, code: int) -> Kind:
    if code in _MYSQL_CONTENTION:
        return "contention"
    # PyMySQL says 0 when it is used after its socket was closed
    closed = code == 0 and isinstance(error, sa.exc.InterfaceError)
    refused = code == _MYSQL_MISSING or code in _MYSQL_REFUSED
    return "lost" if code in _MYSQL_LOST or closed or refused else "other"


def interrupted(error: sa.exc.DBAPIError) -> bool:
    """Whether the server gave a statement up half-way, where it may have been through with a COMMIT in it.

    MySQL and MariaDB alone: PostgreSQL never says so of a COMMIT that is stored.
    """
    cause: Any = error.orig
    return bool(cause is not None and cause.args and cause.args[0] in _MYSQL_INTERRUPTED)


def translate(error: sa.exc.DBAPIError) -> DatabaseError:
    """Our error for a database error that ended a unit."""
    kind = classify(error)
    if kind == "lost":
        return unavailable(error)
    return DatabaseContention(short(error)) if kind == "contention" else DatabaseError(short(error))


def unavailable(error: sa.exc.DBAPIError) -> DatabaseUnavailable:
    """Our error for one that is "lost": the server lets nobody in, or cannot be reached."""
    cause: Any = error.orig
    if isinstance(cause, Exception) and (found := _refusal(cause)) is not None:
        kind, says = found
        return kind(f"the database server refuses the connection: {says}")
    return DatabaseUnavailable(f"the database cannot be reached: {short(error)}")


def _refusal(cause: Exception) -> tuple[type[DatabaseUnavailable], str] | None:
    """The server's own sentence names a user or a database, never a password."""
    code = cause.args[0] if cause.args else None
    if isinstance(code, int):
        says = str(cause.args[1]) if len(cause.args) > 1 else str(code)
        if code == _MYSQL_MISSING:
            return DatabaseMissing, says
        return (DatabaseLoginRefused, says) if code in _MYSQL_REFUSED else None
    for pattern, kind in ((_POSTGRESQL_MISSING, DatabaseMissing), (_POSTGRESQL_REFUSED, DatabaseLoginRefused)):
        if found := pattern.search(str(cause)):
            return kind, found[1] or found[2]
    return None


def short(error: sa.exc.DBAPIError) -> str:
    """The kind of the driver's error: never the statement or its values, which may hold a payload."""
    cause = error.orig
    code = cause.args[0] if cause is not None and cause.args else None
    return f"{type(cause).__name__} {code}" if isinstance(code, int) else type(cause).__name__
