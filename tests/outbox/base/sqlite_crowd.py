"""One of several processes that write to one SQLite file; at its head so that a child process can import it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import sqlalchemy as sa

from outbox.base.db import UnitOfWork
from outbox.base.ids import new_id
from tests.outbox.base.notes import NOTES, add_one
from tests.support.migrated import engine_for

THREADS = 4


def create_and_run(url: str, units: int) -> None:
    """When told to, open the file and do `units` times what a job does: create, then read and change."""
    print("ready", flush=True)
    input()
    with engine_for(url) as engine, ThreadPoolExecutor(THREADS) as pool:
        uow = UnitOfWork(engine)
        uow.run(lambda conn: NOTES.create(conn, checkfirst=True))
        list(pool.map(lambda _: _one_job(uow), range(units)))
    print("done", flush=True)


def _one_job(uow: UnitOfWork) -> None:
    note = new_id()
    uow.run(lambda conn: conn.execute(sa.insert(NOTES), {"id": note, "n": 0}).rowcount)

    def claim(conn: sa.Connection) -> int:
        # reads first and writes later: what SQLite cannot do in a transaction that began as a reader
        assert conn.execute(sa.select(NOTES.c.n).where(NOTES.c.id == note)).scalar_one() == 0
        return add_one(conn, note)

    assert uow.run(claim) == 1
