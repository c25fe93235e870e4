"""Procrastinate on PostgreSQL, with its asynchronous worker."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import procrastinate

from scripts.benchmarks.peers.program import Peer
from scripts.benchmarks.ticks import tick

DSN = os.environ.get("BENCH_POSTGRESQL", "")
app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=DSN, max_size=10))


@app.task(name="bench")
async def bench(began: float, sleep_s: float) -> None:
    """One job."""
    if sleep_s:
        await asyncio.sleep(sleep_s)
    tick(began)


class ProcrastinatePeer(Peer):
    """Jobs are deferred in batches where many are wanted."""

    async def schema(self) -> None:
        async with app.open_async():
            await app.schema_manager.apply_schema_async()

    async def open(self) -> None:
        await app.open_async()

    async def close(self) -> None:
        await app.close_async()

    async def enqueue(self, count: int, began: float, sleep_s: float) -> None:
        if count == 1:
            await bench.defer_async(began=began, sleep_s=sleep_s)
        else:
            await bench.batch_defer_async(*[{"began": began, "sleep_s": sleep_s}] * count)

    async def worker(self, slots: int) -> Any:
        async with app.open_async():
            await app.run_worker_async(concurrency=slots)


if __name__ == "__main__":
    ProcrastinatePeer().main()
