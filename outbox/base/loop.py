"""A loop is one round plus a runner: the round does the work, only the runner knows about time."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from outbox.base.backoff import exponential
from registry.errors import AiJobsError

_log = logging.getLogger("aijobs.loop")


def _told(error: BaseException) -> str:
    """Our own errors tell no content; of others only the kind is logged (promise 7)."""
    return f"{error.code}: {error}" if isinstance(error, AiJobsError) else type(error).__name__


class Loop:
    """Runs ``round_()`` again and again on a thread of its own until stopped.

    ``round_`` returns whether there may be more to do at once; otherwise ``idle`` waits (at most
    ``interval_ms``) for a hint or the next turn. An error is logged and answered with a growing wait, so
    that no failure ends a loop and none becomes a busy loop.
    """

    def __init__(
        self,
        name: str,
        round_: Callable[[], bool],
        *,
        interval_ms: int,
        idle: Callable[[int], object] | None = None,
    ) -> None:
        self.name = name
        self._round = round_
        self._interval_ms = interval_ms
        self._stop = threading.Event()
        self._idle = idle or self._sleep
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin on a thread named after the loop."""
        self._thread = threading.Thread(target=self._run, name=f"aijobs-{self.name}", daemon=True)
        self._thread.start()

    def run_out(self) -> None:
        """Run rounds on the caller's thread until one promises no more; what a round raises is raised."""
        while self._round():
            pass

    def stop(self) -> None:
        """Ask the loop to end after its present round."""
        self._stop.set()

    def join(self, timeout_s: float | None = None) -> bool:
        """Wait until the loop has ended; False when it still runs after ``timeout_s``."""
        if self._thread is not None:
            self._thread.join(timeout_s)
        return self._thread is None or not self._thread.is_alive()

    @property
    def stopping(self) -> bool:
        return self._stop.is_set()

    def _run(self) -> None:
        failures = 0
        while not self._stop.is_set():
            try:
                more = self._round()
                failures = 0
                if not more and not self._stop.is_set():
                    self._idle(self._interval_ms)
            except BaseException as error:  # noqa: BLE001 - no failure ends a loop: SystemExit would end its thread alone
                failures += 1
                # An outage is told at its beginning and ever more rarely, not every few seconds.
                level = logging.DEBUG if failures & (failures - 1) else logging.WARNING
                _log.log(level, "%s failed: %s", self.name, _told(error))
                _log.debug("%s failed", self.name, exc_info=error)
                self._sleep(exponential(failures, base_ms=100, limit_ms=5_000))

    def _sleep(self, ms: int) -> None:
        self._stop.wait(ms / 1000)
