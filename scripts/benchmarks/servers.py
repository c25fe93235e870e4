"""Private servers of a run, at the durability they have by default: every commit is on the disk."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Literal, Self

from tests.support.servers import MariaDbServer, PostgresServer, RedisServer

Database = Literal["mariadb", "postgresql", "sqlite"]
NAME = "bench"

#: What the suite's servers leave out to be quick, given back.
_MARIADB = {"innodb-flush-log-at-trx-commit": "1", "innodb-log-file-size": "96M"}
_POSTGRESQL = {"fsync": "on", "full_page_writes": "on"}


class Servers:
    """Use in a ``with`` block. PostgreSQL runs beside MariaDB when a peer needs it."""

    def __init__(self, database: Database, *, peers: bool = False, large: bool = False) -> None:
        self.database: Database = database
        self.mariadb: MariaDbServer | None = None
        self.postgresql: PostgresServer | None = None
        self.redis = RedisServer()
        self._peers = peers
        self._large = large
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._stack.enter_context(self.redis)
        if self.database == "mariadb":
            pool = {"innodb-buffer-pool-size": "1G"} if self._large else {}
            self.mariadb = self._stack.enter_context(MariaDbServer(options=_MARIADB | pool))
        if self.database == "postgresql" or self._peers:
            self.postgresql = self._stack.enter_context(PostgresServer(options=_POSTGRESQL))
        self._folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="aijobs-bench-")))
        return self

    def __exit__(self, *_exc: object) -> None:
        self._stack.close()

    def clean(self) -> None:
        """An empty database and an empty Redis."""
        self.redis.flush()
        if self.mariadb is not None:
            with self.mariadb.connect() as conn, conn.cursor() as cursor:
                cursor.execute(f"DROP DATABASE IF EXISTS {NAME}")
                cursor.execute(f"CREATE DATABASE {NAME}")
        if self.postgresql is not None:
            with self.postgresql.connect() as session:
                session.execute(f"DROP DATABASE IF EXISTS {NAME} WITH (FORCE)")
                session.execute(f"CREATE DATABASE {NAME}")
        for path in self._folder.glob("bench.db*"):
            path.unlink()

    @property
    def environment(self) -> dict[str, str]:
        """Where the children find them."""
        found = {"AIJOBS_DATABASE_URL": self.url, "AIJOBS_REDIS_URL": self.redis.url, "BENCH_REDIS": self.redis.url}
        if self.postgresql is not None:
            server = self.postgresql
            found["BENCH_POSTGRESQL"] = f"postgresql://postgres@{server.host}:{server.port}/{NAME}"
        return found

    @property
    def url(self) -> str:
        """SQLAlchemy's address of the database under test."""
        if self.mariadb is not None:
            return self.mariadb.url(NAME)
        if self.database == "postgresql" and self.postgresql is not None:
            return self.postgresql.url(NAME)
        return f"sqlite:///{self._folder / 'bench.db'}"
