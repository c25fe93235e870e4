"""An engine on a database of each kind with the one table `NOTES`, which is empty, and the clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import sqlalchemy as sa

from outbox.base.clock import DatabaseClock
from outbox.base.db import UnitOfWork
from tests.outbox.base.notes import NOTES
from tests.support.databases import Databases
from tests.support.migrated import engine_for


def _make_notes(url: str) -> None:
    with engine_for(url) as engine:
        NOTES.create(engine)


def engine_with_notes(pool: Databases) -> Iterator[sa.Engine]:
    """An engine on a database of ``pool`` with an empty `NOTES`."""
    url = pool.prepared("notes", _make_notes)
    with engine_for(url) as engine:
        yield engine
    pool.give_back("notes", url)


@pytest.fixture
def engine(database_kind: str, databases: Callable[[str], Databases]) -> Iterator[sa.Engine]:
    """The test runs once for each kind."""
    yield from engine_with_notes(databases(database_kind))


@pytest.fixture(params=["mariadb", "postgresql"])
def server_engine(
    request: pytest.FixtureRequest, databases: Callable[[str], Databases]
) -> Iterator[sa.Engine]:
    """As `engine`, for what only a server has: lengths, time zones, deadlocks."""
    wanted = request.config.getoption("--database")
    if wanted and request.param not in wanted:
        pytest.skip(f"not asked for: {request.param}")
    yield from engine_with_notes(databases(request.param))


@pytest.fixture
def conn(engine: sa.Engine) -> Iterator[sa.Connection]:
    with engine.connect() as conn:
        yield conn


@pytest.fixture
def uow(engine: sa.Engine) -> UnitOfWork:
    return UnitOfWork(engine)


@pytest.fixture
def clock() -> DatabaseClock:
    return DatabaseClock()
