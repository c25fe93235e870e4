"""One engine per test on an empty database of each kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import sqlalchemy as sa

from tests.support.databases import Databases
from tests.support.migrated import engine_for


@pytest.fixture
def engine(database_url: str) -> Iterator[sa.Engine]:
    """On an empty database; the test runs once for each kind."""
    with engine_for(database_url) as engine:
        yield engine


@pytest.fixture
def second_engine(database_kind: str, databases: Callable[[str], Databases]) -> Iterator[sa.Engine]:
    """On another empty database of the same kind."""
    pool = databases(database_kind)
    url = pool.empty()
    with engine_for(url) as engine:
        yield engine
    pool.drop(url)
