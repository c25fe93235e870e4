"""A dispatcher and a worker of an app, in threads of this process: real ones, stopped at the end."""

from __future__ import annotations

import threading
from typing import Self

from engine.app import AiJobApp
from engine.worker.assembly import make_dispatcher, make_worker
from tests.support.wait import PATIENCE_S


class Daemons:
    """Runs the jobs of `app`. Use as a context manager."""

    def __init__(self, app: AiJobApp, *, concurrency: int = 50, upkeep: bool = False) -> None:
        self._dispatcher = make_dispatcher(app, upkeep=upkeep)
        self.worker = make_worker(app, concurrency=concurrency, grace_ms=1)
        self._thread = threading.Thread(target=self.worker.run, name="worker", daemon=True)

    def start(self) -> Self:
        self._dispatcher.start()
        self._thread.start()
        assert self.worker.wait_ready(PATIENCE_S), "the worker did not start"
        return self

    def close(self) -> None:
        for stop in (self.worker.stop, self.worker.stop, self._dispatcher.stop):
            stop()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "the worker did not stop"
        assert self._dispatcher.join(PATIENCE_S), "the dispatcher did not stop"

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_exc: object) -> None:
        self.close()
