"""DBOS on PostgreSQL: a queue of workflows without steps, polled far more often than by default."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

from dbos import DBOS, DBOSClient

from scripts.benchmarks.peers.program import Peer
from scripts.benchmarks.ticks import tick

DSN = os.environ.get("BENCH_POSTGRESQL", "")
_CONFIG: Any = {
    "name": "bench", "system_database_url": DSN, "application_version": "1", "run_admin_server": False,
    "log_level": "WARNING",
}  # fmt: skip


@DBOS.workflow(name="bench")
async def bench(began: float, sleep_s: float) -> None:
    """One job."""
    if sleep_s:
        await asyncio.sleep(sleep_s)
    tick(began)


class DbosPeer(Peer):
    """Clients enqueue, a worker process polls."""

    client: DBOSClient

    async def schema(self) -> None:
        # It refuses to be launched where an event loop runs.
        await asyncio.to_thread(_launch, 10)
        await asyncio.to_thread(DBOS.destroy)

    async def open(self) -> None:
        self.client = DBOSClient(system_database_url=DSN)

    async def close(self) -> None:
        self.client.destroy()

    async def enqueue(self, count: int, began: float, sleep_s: float) -> None:
        for _ in range(count):
            # the asynchronous variant does the same on a thread, which costs more
            self.client.enqueue({"queue_name": "q", "workflow_name": "bench", "app_version": "1"}, began, sleep_s)

    def worker(self, slots: int) -> Any:
        _launch(slots)
        time.sleep(3_600)


def _launch(slots: int) -> None:
    DBOS(config=_CONFIG)
    DBOS.launch()
    DBOS.register_queue("q", worker_concurrency=slots, polling_interval_sec=0.01, on_conflict="always_update")


if __name__ == "__main__":
    DbosPeer().main()
