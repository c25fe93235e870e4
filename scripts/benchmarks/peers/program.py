"""What the programs of peers share: the commands, and how creation is timed."""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any


class Peer:
    """One queue. A subclass says how; what is not needed stays as it is."""

    #: What runs its coroutines.
    run: Callable[[Coroutine[Any, Any, Any]], Any] = staticmethod(asyncio.run)

    async def schema(self) -> None:
        """Make what it needs in the store."""

    async def open(self) -> None:
        """Connect."""

    async def close(self) -> None:
        """Disconnect."""

    async def enqueue(self, count: int, began: float, sleep_s: float) -> None:
        """Enqueue ``count`` jobs in one call; ``count`` is 1 where there is no bulk API."""
        raise NotImplementedError

    def worker(self, slots: int) -> Any:
        """Work until stopped."""
        raise NotImplementedError

    # -------------------------------------------------------------- commands

    async def create(self, jobs: float, bulk: float, sleep_s: float, _filler: float) -> dict[str, float]:
        """Enqueue jobs; the first is the warm-up."""
        await self.enqueue(1, 0.0, sleep_s)
        left = int(jobs) - 1
        began, cpu = time.monotonic(), time.process_time()
        while left > 0:
            count = min(int(bulk), left)
            await self.enqueue(count, 0.0, sleep_s)
            left -= count
        return {"began": began, "seconds": time.monotonic() - began, "cpu_s": time.process_time() - cpu}

    async def trickle(self, jobs: float, gap_s: float) -> dict[str, float]:
        """Enqueue one job per ``gap_s``."""
        due = time.monotonic()
        for _ in range(int(jobs)):
            due += gap_s
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            await self.enqueue(1, time.monotonic(), 0.0)
        return {}

    async def _command(self, name: str, *numbers: float) -> dict[str, float]:
        if name == "schema":
            await self.schema()
            return {}
        await self.open()
        try:
            commands: dict[str, Callable[..., Awaitable[dict[str, float]]]] = {
                "create": self.create, "trickle": self.trickle,
            }  # fmt: skip
            return await commands[name](*numbers)
        finally:
            await self.close()

    def main(self) -> None:
        """Run the command of the command line."""
        name, *numbers = sys.argv[1:]
        if name == "worker":
            running = self.worker(int(float(numbers[0])))
            if inspect.iscoroutine(running):
                self.run(running)
        else:
            print(json.dumps(self.run(self._command(name, *map(float, numbers)))))
