"""What a database error means for the unit of work that it ended."""

from __future__ import annotations

from typing import Any, Final, Literal

import sqlalchemy as sa

from outbox.base.errors import DatabaseContention, DatabaseError, DatabaseUnavailable

#: "contention": the whole unit runs again. "lost": the connection is gone, or none could be had.
Kind = Literal["contention", "lost", "other"]

#: MySQL 1020 is what MariaDB 11.6+ says where older ones said nothing (DB-2); 1205 leaves the transaction
#: open, so it is rolled back like a deadlock (CI-8).
_MYSQL_CONTENTION: Final = frozenset({1020, 1205, 1213, 1614, 3101})
_MYSQL_LOST: Final = frozenset(
    {1040, 1053, 1077, 1152, 1153, 1158, 1159, 1160, 1161, 1184, 1203, 1927}
    | {2000, 2002, 2003, 2006, 2013, 2014, 2055, 4031}
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
    return "lost" if code in _MYSQL_LOST or closed else "other"


def translate(error: sa.exc.DBAPIError) -> DatabaseError:
    """Our error for a database error that ended a unit."""
    kind = classify(error)
    kinds = {"lost": DatabaseUnavailable, "contention": DatabaseContention}
    return kinds.get(kind, DatabaseError)(short(error))


def short(error: sa.exc.DBAPIError) -> str:
    """The kind of the driver's error: never the statement or its values, which may hold a payload."""
    cause = error.orig
    code = cause.args[0] if cause is not None and cause.args else None
    return f"{type(cause).__name__} {code}" if isinstance(code, int) else type(cause).__name__
