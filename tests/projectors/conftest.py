"""A migrated, empty database of each kind, and the clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import sqlalchemy as sa

from outbox.base.clock import DatabaseClock
from outbox.base.db import UnitOfWork
from tests.support.databases import Databases
from tests.support.migrated import MIGRATED, engine_for, migrate


@pytest.fixture
def engine(database_kind: str, databases: Callable[[str], Databases]) -> Iterator[sa.Engine]:
    """On a database with all tables and no rows; the test runs once for each kind."""
    pool = databases(database_kind)
    url = pool.prepared(MIGRATED, migrate)
    with engine_for(url) as engine:
        yield engine
    pool.give_back(MIGRATED, url)


@pytest.fixture
def uow(engine: sa.Engine) -> UnitOfWork:
    return UnitOfWork(engine)


@pytest.fixture
def clock() -> DatabaseClock:
    return DatabaseClock()
