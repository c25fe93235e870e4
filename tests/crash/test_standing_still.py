"""A process that is frozen in the middle of a transaction does not keep its rows for ever."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from outbox.base.db import UnitOfWork, classify, create_engine_for
from tests.support.wait import eventually
from tests.support.world import LEASE_S, World


def test_server_ends_a_transaction_that_stands_still_and_frees_its_rows(server_url: str) -> None:
    with World(server_url) as world:
        lease = world.claimed()
        frozen = create_engine_for(server_url, idle_transaction_ms=1_000)
        jobs = world.table("ai_job")
        with frozen.connect() as conn:
            conn.execute(sa.select(jobs.c.id).where(jobs.c.id == lease.job_id).with_for_update())
            world.advance(LEASE_S + 1)
            world.upkeep()
            assert len(world.deliveries(lease.job_id)) == 1

            eventually(lambda: world.upkeep() or len(world.deliveries(lease.job_id)) == 2, interval=0.1)

            # to the process that wakes up, it is a lost connection like any other
            with pytest.raises(sa.exc.DBAPIError) as caught:
                conn.execute(sa.select(sa.literal(1)))
            assert classify(caught.value) == "lost"
        frozen.dispose()


def test_unit_whose_transaction_was_ended_runs_again_from_its_beginning(server_url: str) -> None:
    with World(server_url) as world:
        lease = world.claimed()
        engine = create_engine_for(server_url, idle_transaction_ms=1_000)
        runs = []

        def unit(conn: sa.Connection) -> bool:
            world.app.lifecycle.alive(conn, [lease], locking=True)
            runs.append(conn)
            if len(runs) == 1:
                stands_still(conn, world.engine)
            return world.app.lifecycle.report_progress(conn, lease, 50, None)

        assert UnitOfWork(engine).run(unit)
        # A machine that is slow enough lets the second run stand still as well.
        assert len(runs) >= 2
        assert world.job(lease.job_id).progress == 50
        engine.dispose()


def stands_still(conn: sa.Connection, watcher: sa.Engine) -> None:
    """Wait until the server has ended this session."""
    if conn.dialect.name == "postgresql":
        own, look = "SELECT pg_backend_pid()", "SELECT count(*) FROM pg_stat_activity WHERE pid = {}"
    else:
        own = "SELECT connection_id()"
        look = "SELECT count(*) FROM information_schema.processlist WHERE id = {}"
    number = conn.exec_driver_sql(own).scalar_one()

    def is_gone() -> bool:
        with watcher.connect() as other:
            found = other.exec_driver_sql(look.format(number)).scalar_one()
            other.rollback()
        return not found

    eventually(is_gone)
