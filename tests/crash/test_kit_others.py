"""The kill matrix on PostgreSQL and on one SQLite file: the faults that databases could answer differently."""

from __future__ import annotations

import pytest

from tests.crash.kits import PATIENCE_S, survive

pytestmark = [pytest.mark.slow, pytest.mark.timeout(PATIENCE_S)]


def test_processes_killed_over_postgresql_lose_and_double_nothing(postgresql_tables_url: str, redis_url: str) -> None:
    survive(
        postgresql_tables_url, redis_url, "kill create.before_commit", "kill dispatcher.after_put",
        "kill worker.during_call", "kill worker.in_projector", "kill worker.before_commit", "kill worker.after_commit",
        "kill upkeep.*",
    )  # fmt: skip


def test_processes_frozen_over_postgresql_write_nothing_late(postgresql_tables_url: str, redis_url: str) -> None:
    survive(postgresql_tables_url, redis_url, "freeze worker.after_execute", "freeze worker.before_commit")


def test_redis_lost_over_postgresql_costs_no_job(postgresql_tables_url: str, redis_url: str) -> None:
    survive(postgresql_tables_url, redis_url, "Redis flushed, jobs wait")


def test_processes_killed_over_one_sqlite_file_lose_and_double_nothing(sqlite_tables_url: str, redis_url: str) -> None:
    survive(
        sqlite_tables_url, redis_url, "kill create.before_commit", "kill dispatcher.after_put",
        "kill worker.before_commit", "kill worker.after_commit",
    )  # fmt: skip
