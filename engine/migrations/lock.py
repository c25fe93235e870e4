"""One migration at a time, however many processes of a deployment start one at once."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import sqlalchemy as sa

from engine.migrations.errors import MigrationBusy
from outbox.base.db import classify, is_prepared
from outbox.base.errors import UnpreparedConnectionError

#: How long to wait for another process's migration, in seconds.
WAIT_S: Final = 300
#: How long one step may wait for readers and writers of its table, in seconds. While it waits, MySQL and
#: PostgreSQL make everybody who comes later wait behind it.
TABLE_WAIT_S: Final = 30
#: Any fixed number: PostgreSQL's advisory locks are numbers, separate for each database.
_POSTGRESQL_KEY: Final = int.from_bytes(hashlib.sha256(b"aijobs migration").digest()[:7], "big")


@contextmanager
def migrating(engine: sa.Engine, wait_s: int = WAIT_S) -> Iterator[sa.Connection]:
    """A connection that alone may migrate this database; commits at the end.

    It is one transaction, so that on PostgreSQL and SQLite a migration is all or nothing. The connection
    never goes back to the pool. Raises :class:`MigrationBusy`.
    """
    if engine.dialect.name == "sqlite" and not is_prepared(engine):
        raise UnpreparedConnectionError(
            "SQLite needs transactions that begin IMMEDIATE; call prepare_engine(engine) first"
        )
    with engine.connect() as conn:
        conn.detach()
        try:
            _LOCKS[engine.dialect.name](conn, wait_s)
        except sa.exc.DBAPIError as error:
            if classify(error) == "contention":
                raise MigrationBusy() from error
            raise
        yield conn
        conn.commit()


def _lock_mysql(conn: sa.Connection, wait_s: int) -> None:
    # The name is the server's, not the database's; a digest fits the 64 characters that it may have.
    place = hashlib.sha256(str(conn.engine.url.database).encode()).hexdigest()[:40]
    taken = conn.exec_driver_sql("SELECT GET_LOCK(%s, %s)", (f"aijobs-{place}", wait_s)).scalar()
    if taken != 1:
        raise MigrationBusy()
    conn.exec_driver_sql(f"SET SESSION lock_wait_timeout = {TABLE_WAIT_S}")


def _lock_postgresql(conn: sa.Connection, wait_s: int) -> None:
    # For this transaction only, so that it works behind a pooler as well. 0 would mean for ever.
    conn.exec_driver_sql(f"SET LOCAL lock_timeout = '{wait_s * 1000 or 1}ms'")
    conn.exec_driver_sql("SET LOCAL statement_timeout = 0")
    conn.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_POSTGRESQL_KEY})")
    conn.exec_driver_sql(f"SET LOCAL lock_timeout = '{TABLE_WAIT_S}s'")


def _lock_sqlite(conn: sa.Connection, wait_s: int) -> None:
    # Not through the Connection, which would begin, and so wait for the lock, first.
    cursor = conn.connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {wait_s * 1000}")
    cursor.close()
    conn.begin()


_LOCKS: Final[dict[str, Callable[[sa.Connection, int], None]]] = {
    "mysql": _lock_mysql,
    "mariadb": _lock_mysql,
    "postgresql": _lock_postgresql,
    "sqlite": _lock_sqlite,
}
