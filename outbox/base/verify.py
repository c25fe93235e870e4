"""What is wrong with a database server or a connection, asked once at start and by `aijobs doctor`.

The rules are set on each connection (ground rule 4); a proxy, a pooler or an administrator may undo them
without an error, and then locks, clocks or texts go wrong much later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import sqlalchemy as sa

from outbox.base.db import LOCK_WAIT_S, is_prepared

#: Oldest releases with everything that the statements use; the ones before have ended their support.
OLDEST: Final[dict[str, tuple[int, ...]]] = {
    "MariaDB": (10, 6),
    "MySQL": (8, 0),
    "PostgreSQL": (13,),
    "SQLite": (3, 35),
}


def problems(engine: sa.Engine, *, probe: str | None = None) -> list[str]:
    """What would break a rule on connections of this engine, one sentence each; empty when all is well.

    ``probe`` names a table with at least one row, whose column is updated to its own value, as
    ``table.column``, to find out which meaning row counts have (DB-1); nothing is changed. Raises what the
    database raises when it cannot be reached.
    """
    with engine.connect() as conn:
        found = list(_CHECKS[engine.dialect.name](conn))
        if probe is not None:
            found += _row_count_of_an_equal_write(conn, probe)
        conn.rollback()
    if not is_prepared(engine):
        found.append("the engine was not made ready with prepare_engine")
    return found


def _row_count_of_an_equal_write(conn: sa.Connection, probe: str) -> Iterator[str]:
    table, _, column = probe.partition(".")
    place: Any = sa.table(table, sa.column(column))
    rows = conn.execute(sa.select(sa.func.count()).select_from(place)).scalar_one()
    matched = conn.execute(sa.update(place).values({column: place.c[column]})).rowcount
    if matched != rows:
        yield (
            f"row counts leave out rows that keep their value ({matched} of {rows}); "
            "the connection needs CLIENT_FOUND_ROWS, which a proxy in between may take away"
        )


def _version(product: str, version: tuple[Any, ...] | None) -> Iterator[str]:
    oldest = OLDEST[product]
    if version is not None and version[: len(oldest)] < oldest:
        have, need = (".".join(map(str, numbers)) for numbers in (version, oldest))
        yield f"{product} {have} is not supported; {need} is the oldest that is"


def _differing(have: dict[str, Any], want: dict[str, Any]) -> Iterator[str]:
    for name, value in want.items():
        if have.get(name) != value:
            yield f"{name} is {have.get(name)!r}, should be {value!r}"


def _mysql(conn: sa.Connection) -> Iterator[str]:
    dialect: Any = conn.dialect
    yield from _version("MariaDB" if dialect.is_mariadb else "MySQL", dialect.server_version_info)
    # tx_isolation: the name that MariaDB has used until 11.1
    query = "SHOW SESSION VARIABLES WHERE Variable_name IN ({})".format(
        "'tx_isolation', 'transaction_isolation', 'sql_mode', 'time_zone', 'innodb_lock_wait_timeout', "
        "'character_set_client', 'character_set_connection', 'read_only'"
    )
    have = {str(name): value for name, value in conn.exec_driver_sql(query)}
    have.setdefault("transaction_isolation", have.get("tx_isolation"))
    yield from _differing(
        have,
        {
            "transaction_isolation": "READ-COMMITTED",
            "time_zone": "+00:00",
            "innodb_lock_wait_timeout": str(LOCK_WAIT_S),
            "character_set_client": "utf8mb4",
            "character_set_connection": "utf8mb4",
            "read_only": "OFF",
        },
    )
    if "STRICT_TRANS_TABLES" not in str(have.get("sql_mode")):
        yield "sql_mode has no STRICT_TRANS_TABLES, so too long values would be cut"


def _postgresql(conn: sa.Connection) -> Iterator[str]:
    yield from _version("PostgreSQL", conn.dialect.server_version_info)
    want = {
        "transaction_isolation": "read committed",
        "TimeZone": "UTC",
        "lock_timeout": f"{LOCK_WAIT_S}s",
        "server_encoding": "UTF8",
        "transaction_read_only": "off",
    }
    have = {name: conn.exec_driver_sql(f"SHOW {name}").scalar_one() for name in want}
    yield from _differing(have, want)


def _sqlite(conn: sa.Connection) -> Iterator[str]:
    dialect: Any = conn.dialect
    yield from _version("SQLite", dialect.dbapi.sqlite_version_info)
    if conn.exec_driver_sql("PRAGMA journal_mode").scalar_one() != "wal":
        yield "the file is not in WAL mode; does its disk allow shared memory (network disks do not)?"
    if not conn.exec_driver_sql("PRAGMA busy_timeout").scalar_one():
        yield "busy_timeout is 0, so a second writer would fail at once"


_CHECKS: Final[dict[str, Callable[[sa.Connection], Iterator[str]]]] = {
    "mysql": _mysql,
    "mariadb": _mysql,
    "postgresql": _postgresql,
    "sqlite": _sqlite,
}
