"""The fixture `world` and its kin, for a folder's conftest: `from tests.support.worlds import *`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from outbox.base.db import UnitOfWork, create_engine_for
from tests.support.databases import Databases
from tests.support.migrated import MIGRATED, migrate
from tests.support.world import World

__all__ = [
    "_shared_uows",
    "_shared_worlds",
    "make_world",
    "quick_looks",
    "shared_uow",
    "shared_world",
    "tables_url",
    "world",
]


@pytest.fixture
def tables_url(database_kind: str, databases: Callable[[str], Databases]) -> Iterator[str]:
    """URL of a database with all tables and no rows; the test runs once on each kind."""
    pool = databases(database_kind)
    url = pool.prepared(MIGRATED, migrate)
    yield url
    pool.give_back(MIGRATED, url)


@pytest.fixture(scope="module")
def _shared_uows() -> Iterator[dict[str, UnitOfWork]]:
    kept: dict[str, UnitOfWork] = {}
    yield kept
    for uow in kept.values():
        uow.engine.dispose()


@pytest.fixture
def shared_uow(
    database_kind: str, databases: Callable[[str], Databases], _shared_uows: dict[str, UnitOfWork]
) -> UnitOfWork:
    """A unit of work on a database that a module's tests share: for tests that look at their own jobs only."""
    if database_kind not in _shared_uows:
        url = databases(database_kind).prepared(f"{MIGRATED} {id(_shared_uows)}", migrate)
        _shared_uows[database_kind] = UnitOfWork(create_engine_for(url))
    return _shared_uows[database_kind]


@pytest.fixture(scope="module")
def _shared_worlds() -> Iterator[dict[str, World]]:
    kept: dict[str, World] = {}
    yield kept
    for world in kept.values():
        world.close()


@pytest.fixture
def shared_world(
    database_kind: str, shared_uow: UnitOfWork, _shared_worlds: dict[str, World]
) -> World:
    """A world that a module's tests share; its rows are never cleaned away."""
    if database_kind not in _shared_worlds:
        url = shared_uow.engine.url.render_as_string(hide_password=False)
        _shared_worlds[database_kind] = World(url)
    return _shared_worlds[database_kind]


@pytest.fixture
def make_world(tables_url: str) -> Iterator[Callable[..., World]]:
    """Function (transport, **settings) -> a `World` on the test's database; several share it."""
    worlds: list[World] = []

    def make(*arguments: Any, **settings: Any) -> World:
        worlds.append(World(tables_url, *arguments, **settings))
        return worlds[-1]

    yield make
    for world in reversed(worlds):
        world.close()


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    """A world on each database, with tickets in memory."""
    return make_world()


@pytest.fixture(autouse=True)
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers look at an empty queue for a moment only, and abandon deaf handlers soon: nothing here waits."""
    monkeypatch.setattr("engine.worker.fetcher.WAIT_MS", 10)
    monkeypatch.setattr("engine.pipeline.execute.CLEAN_UP_S", 0.1)
