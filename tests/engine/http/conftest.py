"""The edge over real HTTP: an app on a migrated database, a server on a port of its own, and callers with tokens."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx2
import jwt
import pytest

from engine.app import AiJobApp
from engine.config import HttpSettings, Settings
from engine.http.app import create_http_app
from engine.http.edge import Edge
from engine.http.server import EdgeServer
from engine.intake.commands import CreateJobInput
from outbox.base.clock import DatabaseClock
from registry.job import JobView
from tests.support.databases import Databases
from tests.support.migrated import MIGRATED, migrate
from tests.support.web import WebServer

SECRET = "a-secret-of-thirty-two-bytes-or-more"
FAR = 4_102_444_800
_numbers = itertools.count()


def token_of(subject: str, *scopes: str) -> str:
    """A bearer token that the edge of these tests accepts."""
    claims = {"sub": subject, "exp": FAR, "scope": " ".join(scopes or ("user",))}
    return jwt.encode(claims, SECRET, algorithm="HS256")


def settings_for(url: str, **http: Any) -> Settings:
    """Settings of an app whose edge takes the tokens of :func:`token_of`."""
    return Settings(
        database_url=url,
        redis_url=f"memory://{next(_numbers)}",
        http=HttpSettings(**{"jwt_secret": SECRET} | http),
    )


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
        return httpx2.Client(base_url=self.server.url, headers=headers, timeout=30, **options)

    def create(self, user_id: str = "u1", job_type: str = "synthetic", **more: Any) -> JobView:
        """A queued job."""
        wanted = {"target_type": "t", "target_id": "1", "payload": {}} | more
        return self.app.jobs.create_job(
            CreateJobInput(user_id=user_id, job_type=job_type, **wanted)
        ).job


MakeWorld = Callable[..., World]


@pytest.fixture
def clock() -> DatabaseClock:
    return DatabaseClock()


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


@pytest.fixture
def world(make_world: MakeWorld, migrated_sqlite: str) -> World:
    """A world on SQLite, for what no database can change."""
    return make_world(migrated_sqlite)


@pytest.fixture
def each_world(make_world: MakeWorld, migrated_url: str) -> World:
    """A world on each kind of database."""
    return make_world(migrated_url)
