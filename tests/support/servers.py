"""Private MariaDB, PostgreSQL and Redis servers: real ones, on free ports, to be stopped, killed and frozen at will.

Each server keeps its port over `stop`/`kill`/`restart`, so a client's URL stays right. SQL servers keep their data
over a kill (they recover as after a crash); Redis starts empty unless started with `appendonly`.
Nothing of the machine's own configuration is read, no service is touched, and running as root works.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any, TypeVar

import psycopg
import pymysql
import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.support.programs import (
    ServerFailed,
    ServerMissing,
    as_account,
    copy_tree,
    find_program,
    run,
    template,
    unprivileged_account,
    user_name,
)
from tests.support.server import HOST, Server, free_port

__all__ = [
    "HOST",
    "MariaDbServer",
    "PostgresServer",
    "RedisServer",
    "Server",
    "ServerFailed",
    "ServerMissing",
    "free_port",
    "in_ci",
    "start_or_skip",
]

S = TypeVar("S", bound=Server)


class MariaDbServer(Server):
    """MariaDB as compiled: no option file, so also the compiled character set, which is not utf8mb4 (DB-9)."""

    program = "mariadbd"
    not_ready = (pymysql.Error,)

    def url(self, database: str = "", driver: str = "mariadb+pymysql") -> str:
        return f"{driver}://root@{self.host}:{self.port}/{database}"

    def connect(self, database: str | None = None, **arguments: Any) -> pymysql.Connection[Any]:
        """A raw autocommit connection, for administration and for holding locks in tests."""
        defaults: dict[str, Any] = {"autocommit": True, "charset": "utf8mb4", "connect_timeout": 10}
        return pymysql.connect(
            host=self.host, port=self.port, user="root", database=database, **(defaults | arguments)
        )

    def _create_data(self) -> None:
        installer = find_program("mariadb-install-db", "usr/bin/mariadb-install-db")
        with template("mariadb", find_program(self.program), "1") as (place, is_new):
            if is_new:
                run(
                    [
                        installer,
                        "--no-defaults",
                        "--auth-root-authentication-method=normal",
                        "--skip-test-db",
                        f"--datadir={place}",
                        f"--user={user_name()}",
                        "--innodb-log-file-size=16M",
                    ]
                )
            copy_tree(place, self._home / "data")

    def _command(self, binary: str) -> list[str]:
        return [
            binary,
            "--no-defaults",
            f"--user={user_name()}",
            f"--datadir={self._home / 'data'}",
            f"--socket={self._home / 'socket'}",
            f"--pid-file={self._home / 'pid'}",
            f"--bind-address={self.host}",
            f"--port={self.port}",
            "--innodb-log-file-size=16M",
            # Safe against a killed process, not against a power cut: what a test can tell apart stays the same.
            "--innodb-flush-log-at-trx-commit=2",
            *(f"--{name}={value}" for name, value in self.options.items()),
        ]

    def _ping(self) -> None:
        self.connect(connect_timeout=2, read_timeout=5).close()


class PostgresServer(Server):
    """PostgreSQL, UTF-8, without fsync (safe against a killed process). Root hands it to an unprivileged user."""

    program = "postgres"
    not_ready = (psycopg.Error,)
    patterns = ("usr/lib/postgresql/*/bin/postgres", "usr/local/pgsql/bin/postgres")
    #: "fast": end the sessions, then the server
    stop_signal = signal.SIGINT

    def url(self, database: str = "postgres", driver: str = "postgresql+psycopg") -> str:
        return f"{driver}://postgres@{self.host}:{self.port}/{database}"

    def connect(self, database: str = "postgres", **arguments: Any) -> psycopg.Connection[Any]:
        """A raw autocommit connection, for administration and for holding locks in tests."""
        defaults: dict[str, Any] = {"autocommit": True, "connect_timeout": 10}
        return psycopg.connect(
            host=self.host,
            port=self.port,
            user="postgres",
            dbname=database,
            **(defaults | arguments),
        )

    def _create_data(self) -> None:
        binary = find_program(self.program, *self.patterns)
        initdb = str(Path(binary).with_name("initdb"))
        account = unprivileged_account()
        with template("postgres", binary, "1") as (place, is_new):
            if is_new:
                if account:
                    os.chown(place, account.pw_uid, account.pw_gid)
                arguments = [
                    "--username=postgres",
                    "--auth=trust",
                    "--encoding=UTF8",
                    "--no-locale",
                    "--no-sync",
                ]
                run([*as_account(account), initdb, *arguments, f"--pgdata={place}"])
            copy_tree(place, self._home / "data")
        if account:
            # the log was opened by us; sockets and data belong to the server's user
            os.chown(self._home, account.pw_uid, account.pw_gid)

    def _command(self, binary: str) -> list[str]:
        settings = {
            "listen_addresses": self.host,
            "port": str(self.port),
            "unix_socket_directories": str(self._home),
            "max_connections": "200",
            "fsync": "off",
            "full_page_writes": "off",
            **self.options,
        }
        pairs = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return [
            *as_account(unprivileged_account()),
            binary,
            "-D",
            str(self._home / "data"),
            *pairs,
        ]

    def _ping(self) -> None:
        self.connect(connect_timeout=2).close()


class RedisServer(Server):
    """Redis with its own defaults (`noeviction`), nothing saved to disk: a restart is a loss of everything."""

    program = "redis-server"
    not_ready = (redis.RedisError,)
    patterns = ("usr/bin/redis-server", "usr/bin/valkey-server")

    @property
    def url(self) -> str:
        return f"redis://{self.host}:{self.port}/0"

    @property
    def socket_url(self) -> str:
        return f"unix://{self._home / 'socket'}?db=0"

    def client(self, **arguments: Any) -> redis.Redis:
        """A raw client (bytes in, bytes out); the caller closes it."""
        return redis.Redis.from_url(self.url, **arguments)

    def flush(self) -> None:
        """Empty every database and forget scripts, as after a restart, but quick."""
        with self.client() as client:
            client.flushall()
            client.script_flush()

    def _command(self, binary: str) -> list[str]:
        settings = {
            "bind": self.host,
            "port": str(self.port),
            "unixsocket": str(self._home / "socket"),
            "dir": str(self._home),
            "save": "",
            "appendonly": "no",
            **self.options,
        }
        return [
            binary,
            *(part for name, value in settings.items() for part in (f"--{name}", value)),
        ]

    def _ping(self) -> None:
        # a server with a password or a full memory is up as well; any answer to PING will do
        with redis.Redis(
            host=self.host, port=self.port, socket_timeout=5, retry=Retry(NoBackoff(), 0)
        ) as client:
            try:
                client.ping()
            except redis.AuthenticationError:
                return


def start_or_skip(server: S) -> S:
    """Start, or: skip on a laptop without the program, fail in CI (a skipped promise would look like a kept one)."""
    try:
        return server.start()
    except ServerMissing as error:
        if in_ci():
            raise
        pytest.skip(str(error))


def in_ci() -> bool:
    """Whether nobody looks at skips: the variable CI is set and not "false" or "0"."""
    return os.environ.get("CI", "").lower() not in ("", "0", "false")
