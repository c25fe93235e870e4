"""What arrives together shares a transaction: the next batch gathers while the one before is written."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Generic, TypeVar

I = TypeVar("I")  # noqa: E741 - item
R = TypeVar("R")

#: How long a batch may take before the next one starts beside it, in s.
PATIENCE_S = 0.25
#: Batches under way at most; each takes a database thread.
MAX_UNDER_WAY = 4


class Batcher(Generic[I, R]):
    """Gathers items on the event loop and gives them in batches to ``write`` on a thread.

    ``write`` answers one result, or one exception, per item; what it raises itself goes to every item of
    the batch. Normally one batch is under way at a time, so nobody waits for company when there is none, and
    company comes by itself when there is much to do. A batch that is held up (a lock, a slow disk) does not
    hold up the others: after ``PATIENCE_S`` the next one starts beside it.
    """

    def __init__(
        self,
        name: str,
        write: Callable[[Sequence[I]], Sequence[R | Exception]],
        *,
        executor: Executor,
        limit: int = 128,
    ) -> None:
        self._name = name
        self._write = write
        self._executor = executor
        self._limit = limit
        self._waiting: deque[tuple[I, asyncio.Future[R]]] = deque()
        self._running: asyncio.Task[None] | None = None
        self._under_way: set[asyncio.Future[None]] = set()

    def submit(self, item: I) -> asyncio.Future[R]:
        """Add ``item`` to the next batch; the future ends with its result. Call on the event loop."""
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._running is None:
            self._running = asyncio.ensure_future(self._run())
        return future

    def __len__(self) -> int:
        return len(self._waiting)

    async def drain(self) -> None:
        """Wait until nothing is waiting or under way."""
        while self._running is not None or self._under_way:
            await asyncio.wait([*filter(None, [self._running]), *self._under_way])

    async def _run(self) -> None:
        # One turn of the loop, so that what is about to be submitted comes along.
        await asyncio.sleep(0)
        try:
            while self._waiting:
                count = min(self._limit, len(self._waiting))
                self._begin([self._waiting.popleft() for _ in range(count)])
                await self._patience()
        finally:
            self._running = None

    def _begin(self, batch: list[tuple[I, asyncio.Future[R]]]) -> None:
        flush = asyncio.ensure_future(self._flush(batch))
        self._under_way.add(flush)
        flush.add_done_callback(self._under_way.discard)

    async def _patience(self) -> None:
        """Until every batch is written, or one of few takes too long."""
        timeout = PATIENCE_S if len(self._under_way) < MAX_UNDER_WAY else None
        together = asyncio.ALL_COMPLETED if timeout else asyncio.FIRST_COMPLETED
        if self._under_way:
            await asyncio.wait(list(self._under_way), timeout=timeout, return_when=together)

    async def _flush(self, batch: list[tuple[I, asyncio.Future[R]]]) -> None:
        items = [item for item, _ in batch]
        results: Sequence[R | Exception]
        try:
            results = await asyncio.get_running_loop().run_in_executor(self._executor, self._write, items)
        except Exception as error:  # noqa: BLE001 - it is handed to everyone who waits for this batch
            results = [error] * len(batch)
        for (_, future), result in zip(batch, results, strict=True):
            if future.done():
                continue
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)
