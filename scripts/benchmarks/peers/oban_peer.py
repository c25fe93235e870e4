"""Oban for Python on PostgreSQL, on uvloop as its own command; it needs Python 3.12 (``--python oban=…``)."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import uvloop
from oban import Oban, worker
from oban.schema import install_sql

from scripts.benchmarks.peers.program import Peer
from scripts.benchmarks.ticks import tick

DSN = os.environ.get("BENCH_POSTGRESQL", "")


@worker(queue="default")
class Bench:
    """One job."""

    async def process(self, job: Any) -> None:
        """What Oban calls."""
        if job.args["sleep_s"]:
            await asyncio.sleep(job.args["sleep_s"])
        tick(job.args["began"])


#: Oban's decorator adds `new`.
_BENCH: Any = Bench


class ObanPeer(Peer):
    """Jobs are inserted in bulk where many are wanted."""

    run = staticmethod(uvloop.run)

    async def schema(self) -> None:
        import psycopg

        async with await psycopg.AsyncConnection.connect(DSN, autocommit=True) as conn:
            await conn.execute(install_sql())

    async def open(self) -> None:
        self._pool = await Oban.create_pool(DSN, max_size=2)
        self._oban = await Oban(pool=self._pool).start()

    async def close(self) -> None:
        await self._oban.stop()
        await self._pool.close()

    async def enqueue(self, count: int, began: float, sleep_s: float) -> None:
        jobs = [_BENCH.new({"began": began, "sleep_s": sleep_s}) for _ in range(count)]
        if count == 1:
            await self._oban.enqueue(jobs[0])
        else:
            await self._oban.enqueue_many(*jobs)

    async def worker(self, slots: int) -> Any:
        pool = await Oban.create_pool(DSN, max_size=10)
        async with Oban(pool=pool, queues={"default": slots}):
            await asyncio.sleep(3_600)


if __name__ == "__main__":
    ObanPeer().main()
