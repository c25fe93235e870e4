"""Databases with the tables of the newest migration, and engines that leave nothing open."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa

from engine.migrations import runner
from outbox.base.db import create_engine_for

#: the key under which `Databases.prepared` keeps databases that `migrate` prepared
MIGRATED = "migrated"


def migrate(url: str) -> None:
    """Make the tables, as `aijobs db upgrade` does."""
    with engine_for(url) as engine:
        runner.upgrade(engine)


@contextmanager
def engine_for(url: str) -> Iterator[sa.Engine]:
    """An engine by the project's rules whose connections are closed at the end."""
    engine = create_engine_for(url)
    try:
        yield engine
    finally:
        engine.dispose()
