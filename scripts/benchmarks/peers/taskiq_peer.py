"""taskiq on a Redis stream, which acknowledges (its list broker loses what a crashed worker held), with uvloop."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from typing import Any

from taskiq_redis import RedisStreamBroker

from scripts.benchmarks.peers.program import Peer
from scripts.benchmarks.ticks import tick

broker = RedisStreamBroker(os.environ.get("BENCH_REDIS", "redis://"), consumer_id="0")


@broker.task(task_name="bench")
async def bench(began: float, sleep_s: float) -> None:
    """One job."""
    if sleep_s:
        await asyncio.sleep(sleep_s)
    tick(began)


class TaskiqPeer(Peer):
    """One worker process."""

    async def schema(self) -> None:
        await self.open()
        await self.close()

    async def open(self) -> None:
        await broker.startup()

    async def close(self) -> None:
        await broker.shutdown()

    async def enqueue(self, count: int, began: float, sleep_s: float) -> None:
        for _ in range(count):
            await bench.kiq(began, sleep_s)

    def worker(self, slots: int) -> Any:
        command = [sys.executable, "-m", "taskiq", "worker", "scripts.benchmarks.peers.taskiq_peer:broker"]
        limits = ["--workers", "1", "--max-async-tasks", str(slots), "--max-prefetch", str(slots)]
        subprocess.run([*command, *limits, "--log-level", "WARNING"], check=False)


if __name__ == "__main__":
    TaskiqPeer().main()
