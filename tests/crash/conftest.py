"""Fixtures of this folder, beside `world` and its kin.

`server_kind`   "mariadb" or "postgresql": the databases that are servers, whose sessions and wires can be hurt
`server`        that kind's server of the session
`server_url`    a database on it with all tables and no rows; `mariadb_tables_url` and so on: of one kind only
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.support.databases import Databases
from tests.support.migrated import MIGRATED, migrate
from tests.support.servers import MariaDbServer, PostgresServer
from tests.support.worlds import *  # noqa: F403 - the fixtures of this folder

_SERVERS = {"mariadb": "mariadb_server", "postgresql": "postgres_server"}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "server_kind" in metafunc.fixturenames:
        wanted = metafunc.config.getoption("--database") or _SERVERS
        kinds = [kind for kind in _SERVERS if kind in wanted]
        metafunc.parametrize("server_kind", kinds, ids=kinds, indirect=True, scope="function")


@pytest.fixture
def server_kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server(server_kind: str, request: pytest.FixtureRequest) -> MariaDbServer | PostgresServer:
    found: MariaDbServer | PostgresServer = request.getfixturevalue(_SERVERS[server_kind])
    return found


@pytest.fixture
def server_url(server_kind: str, databases: Callable[[str], Databases]) -> Iterator[str]:
    yield from _tables_url(server_kind, databases)


def _tables_url(kind: str, databases: Callable[[str], Databases]) -> Iterator[str]:
    pool = databases(kind)
    url = pool.prepared(MIGRATED, migrate)
    yield url
    pool.give_back(MIGRATED, url)


@pytest.fixture
def mariadb_tables_url(databases: Callable[[str], Databases]) -> Iterator[str]:
    yield from _tables_url("mariadb", databases)


@pytest.fixture
def postgresql_tables_url(databases: Callable[[str], Databases]) -> Iterator[str]:
    yield from _tables_url("postgresql", databases)


@pytest.fixture
def sqlite_tables_url(databases: Callable[[str], Databases]) -> Iterator[str]:
    yield from _tables_url("sqlite", databases)
