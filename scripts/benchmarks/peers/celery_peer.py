"""Celery on Redis: threads, a high prefetch, no results, no events."""

from __future__ import annotations

import os
import time
from typing import Any

from celery import Celery

from scripts.benchmarks.peers.program import Peer
from scripts.benchmarks.ticks import tick

app = Celery("celery_peer", broker=os.environ.get("BENCH_REDIS"))
app.conf.update(task_ignore_result=True, worker_prefetch_multiplier=64, worker_send_task_events=False)


@app.task(name="bench")
def bench(began: float, sleep_s: float) -> None:
    """One job."""
    if sleep_s:
        time.sleep(sleep_s)
    tick(began)


class CeleryPeer(Peer):
    """No-op jobs run in the main thread (its fastest pool), sleeping ones on threads."""

    async def enqueue(self, count: int, began: float, sleep_s: float) -> None:
        for _ in range(count):
            bench.delay(began, sleep_s)

    def worker(self, slots: int) -> Any:
        pool = ["-P", "solo"] if slots <= 128 else ["-P", "threads", "-c", str(slots)]
        quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "WARNING"]
        app.worker_main(["worker", *pool, *quiet])


if __name__ == "__main__":
    CeleryPeer().main()
