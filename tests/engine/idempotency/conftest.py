"""The store on a database of each kind, with a clock that tests move."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from engine.idempotency.models import IDEMPOTENCY_RECORD
from engine.idempotency.store import IdempotencyStore
from outbox.base.clock import DatabaseClock
from outbox.base.db import UnitOfWork, create_engine_for


@pytest.fixture
def clock() -> DatabaseClock:
    return DatabaseClock()


@pytest.fixture
def engine(database_url: str) -> Iterator[sa.Engine]:
    made = create_engine_for(database_url)
    IDEMPOTENCY_RECORD.create(made)
    yield made
    made.dispose()


@pytest.fixture
def store(engine: sa.Engine, clock: DatabaseClock) -> IdempotencyStore:
    return IdempotencyStore(UnitOfWork(engine), clock)
