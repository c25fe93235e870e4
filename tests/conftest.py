"""Fixtures for every test: real servers, started by the first test that asks and private to this test process.

Databases
    `database_url`        a fresh, empty database; the test runs once each on sqlite, mariadb and postgresql
    `db_url`              the same value, shorter
    `database_kind`       "sqlite", "mariadb" or "postgresql": the kind of `database_url` in this run
    `sqlite_url`, `mariadb_url`, `postgresql_url`   one kind only, in the same database as `database_url` never
    `databases`           function kind -> `Databases`, for prepared (row-cleaned) databases of one's own making
Servers
    `mariadb_server`, `postgres_server`, `redis_server`   shared by the session, running again after each test
    `own_mariadb`, `own_postgres`, `own_redis`            this test's alone: stop, kill and pause them
    `redis_url`, `redis_client`                           the shared Redis, flushed before the test
Tools
    `tcp_proxy`           function (host, port) -> running `TcpProxy`, closed after the test
    `children`            `Children`: child processes, all reaped after the test

Under pytest-xdist every worker has servers of its own: a test may flush or kill one without a neighbour noticing.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, settings

from tests.support.databases import Databases, MariaDbDatabases, PostgresDatabases, SqliteDatabases
from tests.support.processes import Children
from tests.support.proxy import TcpProxy
from tests.support.servers import (
    MariaDbServer,
    PostgresServer,
    RedisServer,
    Server,
    in_ci,
    start_or_skip,
)

# A loaded machine is not a defect, and a red build must be red again when it is repeated.
settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("suite"), derandomize=True)
settings.load_profile("ci" if in_ci() else "suite")

# The certificates of the world take 40 ms to read, which each raw connection of PyMySQL and each HTTP client does.
# Nobody here talks to the world, so it is one certificate that is read, in every process; its key was thrown away.
os.environ["SSL_CERT_FILE"] = str(Path(__file__).parent / "support" / "nobody.pem")

# What a shell runs in the background ignores SIGINT, and so would every program that a test starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

DATABASE_KINDS = ("sqlite", "mariadb", "postgresql")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--database",
        action="append",
        choices=DATABASE_KINDS,
        help="run the tests that take `database_url` on this kind only (may be given again); default: all three",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "database_kind" in metafunc.fixturenames:
        about = metafunc.definition.get_closest_marker("databases")
        wanted = metafunc.config.getoption("--database") or DATABASE_KINDS
        kinds = [kind for kind in wanted if about is None or kind in about.args]
        metafunc.parametrize(
            "database_kind", kinds, ids=list(kinds), indirect=True, scope="function"
        )


def _session_server(server: Server) -> Iterator[Server]:
    yield start_or_skip(server)
    server.close()


# -- servers ---------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def _mariadb() -> Iterator[Server]:
    yield from _session_server(MariaDbServer())


@pytest.fixture(scope="session")
def _postgres() -> Iterator[Server]:
    yield from _session_server(PostgresServer())


@pytest.fixture(scope="session")
def _redis() -> Iterator[Server]:
    yield from _session_server(RedisServer())


@pytest.fixture
def mariadb_server(_mariadb: MariaDbServer) -> Iterator[MariaDbServer]:
    """The session's MariaDB. A test that stops or freezes it needs no clean-up."""
    yield _mariadb.heal()
    _mariadb.heal()


@pytest.fixture
def postgres_server(_postgres: PostgresServer) -> Iterator[PostgresServer]:
    """The session's PostgreSQL. A test that stops or freezes it needs no clean-up."""
    yield _postgres.heal()
    _postgres.heal()


@pytest.fixture
def redis_server(_redis: RedisServer) -> Iterator[RedisServer]:
    """The session's Redis, empty. A test that stops or freezes it needs no clean-up."""
    _redis.heal().flush()
    yield _redis
    _redis.heal()


@pytest.fixture
def redis_url(redis_server: RedisServer) -> str:
    """URL of an empty Redis, `redis://127.0.0.1:PORT/0`."""
    return redis_server.url


@pytest.fixture
def redis_client(redis_server: RedisServer) -> Iterator[redis.Redis]:
    """A raw client (bytes) of the empty Redis."""
    with redis_server.client() as client:
        yield client


@pytest.fixture
def own_mariadb() -> Iterator[MariaDbServer]:
    """A MariaDB for this test alone."""
    server = start_or_skip(MariaDbServer())
    yield server
    server.close()


@pytest.fixture
def own_postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL for this test alone."""
    server = start_or_skip(PostgresServer())
    yield server
    server.close()


@pytest.fixture
def own_redis() -> Iterator[RedisServer]:
    """A Redis for this test alone. For other options: `with RedisServer(options={...}) as server`."""
    server = start_or_skip(RedisServer())
    yield server
    server.close()


# -- databases -------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def _database_pools() -> dict[str, Databases]:
    return {}


@pytest.fixture
def databases(
    request: pytest.FixtureRequest,
    _database_pools: dict[str, Databases],
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[str], Databases]:
    """Function from a kind to its `Databases`; starts the server of that kind."""

    def pool(kind: str) -> Databases:
        server = {"mariadb": "mariadb_server", "postgresql": "postgres_server"}.get(kind)
        running = request.getfixturevalue(server) if server else None
        if kind not in _database_pools:
            _database_pools[kind] = _new_pool(kind, running, tmp_path_factory)
        return _database_pools[kind]

    return pool


def _new_pool(kind: str, server: Any, folders: pytest.TempPathFactory) -> Databases:
    if kind == "mariadb":
        return MariaDbDatabases(server)
    if kind == "postgresql":
        return PostgresDatabases(server)
    return SqliteDatabases(folders.mktemp("sqlite"))


@pytest.fixture
def database_kind(request: pytest.FixtureRequest) -> str:
    """ "sqlite", "mariadb" or "postgresql"; a test that takes it (or `database_url`) runs once on each."""
    return str(request.param)


def _empty(pool: Databases) -> Iterator[str]:
    url = pool.empty()
    yield url
    pool.drop(url)


@pytest.fixture
def database_url(database_kind: str, databases: Callable[[str], Databases]) -> Iterator[str]:
    """SQLAlchemy URL of a fresh, empty database of `database_kind`."""
    yield from _empty(databases(database_kind))


@pytest.fixture
def db_url(database_url: str) -> str:
    """Another name of `database_url`."""
    return database_url


@pytest.fixture
def sqlite_url(databases: Callable[[str], Databases]) -> Iterator[str]:
    """URL of a fresh SQLite file."""
    yield from _empty(databases("sqlite"))


@pytest.fixture
def mariadb_url(databases: Callable[[str], Databases]) -> Iterator[str]:
    """URL of a fresh, empty MariaDB database."""
    yield from _empty(databases("mariadb"))


@pytest.fixture
def postgresql_url(databases: Callable[[str], Databases]) -> Iterator[str]:
    """URL of a fresh, empty PostgreSQL database."""
    yield from _empty(databases("postgresql"))


# -- tools -----------------------------------------------------------------------------------------


@pytest.fixture
def project_root() -> Path:
    """The folder with pyproject.toml."""
    return Path(__file__).resolve().parent.parent


@pytest.fixture
def tcp_proxy() -> Iterator[Callable[[str, int], TcpProxy]]:
    """Function (host, port) -> a running `TcpProxy` to that server, closed after the test."""
    proxies: list[TcpProxy] = []

    def start(host: str, port: int) -> TcpProxy:
        proxies.append(TcpProxy((host, port)).start())
        return proxies[-1]

    yield start
    for proxy in proxies:
        proxy.close()


@pytest.fixture
def children() -> Iterator[Children]:
    """Child processes, all killed and collected after the test."""
    children = Children()
    yield children
    children.close()
