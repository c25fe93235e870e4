"""The edge over real HTTP: an app on a migrated database, a server on a port of its own, and callers with tokens."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest

from engine.app import AiJobApp
from engine.http.app import create_http_app
from engine.http.edge import Edge
from engine.http.server import EdgeServer
from engine.intake.commands import CreateJobInput
from outbox.base.clock import DatabaseClock
from outbox.base.tables import METADATA
from outbox.transports.memory import MemoryTransport
from registry.job import JobView
from tests.engine.http.settings import FAR, SECRET, settings_for, token_of
from tests.support.databases import Databases
from tests.support.migrated import MIGRATED, migrate
from tests.support.wait import eventually
from tests.support.web import WebServer

#: One for all clients: reading the certificates of the world takes longer than most tests here.
TLS = ssl.create_default_context()
#: One for all worlds that live as long as the session; set back for every test.
_CLOCK = DatabaseClock()


@dataclass
class World:
    """An app, its edge and a server in front of them."""

    app: AiJobApp
    edge: Edge
    server: WebServer

    def client(self, subject: str | None = "u1", *scopes: str, **options: Any) -> httpx2.Client:
        """A client with the token of ``subject``; close it, or use it in a with block."""
        headers = (
            {} if subject is None else {"authorization": f"Bearer {token_of(subject, *scopes)}"}
        )
        return httpx2.Client(
            base_url=self.server.url, headers=headers, **{"timeout": 30, "verify": TLS} | options
        )

    def create(self, user_id: str = "u1", job_type: str = "synthetic", **more: Any) -> JobView:
        """A queued job."""
        wanted = {"target_type": "t", "target_id": "1", "payload": {}} | more
        return self.app.jobs.create_job(
            CreateJobInput(user_id=user_id, job_type=job_type, **wanted)
        ).job

    def empty(self) -> None:
        """Forget every row and ticket, once nobody is served any more."""
        eventually(lambda: not self.edge.watch._watchers)
        with self.app.database.begin() as conn:
            for table in reversed(METADATA.sorted_tables):
                conn.execute(table.delete())
        assert isinstance(self.app.transport, MemoryTransport)
        self.app.transport.__init__()  # type: ignore[misc]  # whoever holds it goes on holding it


__all__ = ["SECRET", "FAR", "settings_for", "token_of"]

MakeWorld = Callable[..., World]


@pytest.fixture
def clock() -> DatabaseClock:
    _CLOCK._offset_us = 0
    return _CLOCK


@pytest.fixture
def migrated_url(database_kind: str, databases: Callable[[str], Databases]) -> Iterator[str]:
    """A migrated database without rows, of each kind."""
    pool = databases(database_kind)
    url = pool.prepared(MIGRATED, migrate)
    yield url
    pool.give_back(MIGRATED, url)


@pytest.fixture
def migrated_sqlite(databases: Callable[[str], Databases]) -> Iterator[str]:
    """A migrated SQLite file without rows."""
    pool = databases("sqlite")
    url = pool.prepared(MIGRATED, migrate)
    yield url
    pool.give_back(MIGRATED, url)


@pytest.fixture
def make_world(clock: DatabaseClock) -> Iterator[MakeWorld]:
    """Function (url, settings=..., prepare=...) -> a running world, closed after the test."""
    worlds: list[World] = []

    def make(
        url: str,
        *,
        prepare: Callable[[AiJobApp], Any] = lambda _: None,
        build: Callable[[AiJobApp], Any] = create_http_app,
        app: AiJobApp | None = None,
        **http: Any,
    ) -> World:
        app = app or AiJobApp(settings=settings_for(url, **http), clock=clock)
        prepare(app)
        api = build(app)
        edge: Edge = api.state.edge
        server = WebServer(api, lambda config: EdgeServer(config, edge)).start()
        world = World(app, edge, server)
        worlds.append(world)
        return world

    yield make
    for world in worlds:
        world.server.close()
        world.app.close()


@pytest.fixture(scope="session")
def _kept_worlds() -> Iterator[dict[tuple[str, str], World]]:
    kept: dict[tuple[str, str], World] = {}
    yield kept
    for world in kept.values():
        world.server.close()
        world.app.close()


@pytest.fixture
def kept_world(
    databases: Callable[[str], Databases],
    _kept_worlds: dict[tuple[str, str], World],
    clock: DatabaseClock,
) -> MakeWorld:
    """Function (kind, name, prepare=..., build=...) -> the world of that name, without rows and tickets.

    It is made once and lives as long as the session, for tests that change nothing but what it holds.
    """

    def find(
        kind: str,
        name: str,
        *,
        prepare: Callable[[AiJobApp], Any] = lambda _: None,
        build: Callable[[AiJobApp], Any] = create_http_app,
    ) -> World:
        if (kind, name) in _kept_worlds:
            world = _kept_worlds[kind, name]
            world.empty()
            return world
        url = databases(kind).prepared(MIGRATED, migrate)
        app = AiJobApp(settings=settings_for(url), clock=clock)
        prepare(app)
        api = build(app)
        edge: Edge = api.state.edge
        server = WebServer(api, lambda config: EdgeServer(config, edge)).start()
        return _kept_worlds.setdefault((kind, name), World(app, edge, server))

    return find


@pytest.fixture
def world(kept_world: MakeWorld) -> World:
    """A world on SQLite, for what no database can change."""
    return kept_world("sqlite", "edge")


@pytest.fixture
def each_world(kept_world: MakeWorld, database_kind: str) -> World:
    """A world on each kind of database."""
    return kept_world(database_kind, "edge")


@pytest.fixture
def own_world(make_world: MakeWorld, migrated_sqlite: str) -> World:
    """A world on SQLite for this test alone: it may be stopped, and has counted nothing yet."""
    return make_world(migrated_sqlite)


@pytest.fixture
def each_own_world(make_world: MakeWorld, migrated_url: str) -> World:
    """The same on each kind of database."""
    return make_world(migrated_url)
