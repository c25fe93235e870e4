"""Hears from Redis of ended jobs while somebody waits, on a thread of its own. Best effort: the database is looked at
anyway, only less often while this hears.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable
from typing import Final
from uuid import UUID

from outbox.errors import TransportError
from outbox.transports.base import EndedJobs

#: How long one wait lasts, in ms, and how long Redis is left alone after it could not be had, in seconds.
_WAIT_MS: Final = 60_000
_AGAIN_S: Final = 5.0

_log = logging.getLogger("aijobs.http.watch")


class Hearing:
    """One listener's thread; ``heard`` is called on the event loop that :meth:`start` was called on."""

    def __init__(
        self, listen: Callable[[], EndedJobs], heard: Callable[[frozenset[UUID]], None]
    ) -> None:
        self._listen = listen
        self._heard = heard
        self._stopped = threading.Event()
        #: Whether what ends now would be heard.
        self.live = False

    def start(self) -> None:
        """Begin; does not wait for Redis."""
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._run, args=(loop,), name="aijobs-hearing", daemon=True).start()

    def stop(self) -> None:
        """Hear no more; does not wait for the thread."""
        self._stopped.set()

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        while not self._stopped.is_set():
            try:
                with contextlib.closing(self._listen()) as listener:
                    self.live = True
                    self._hear(listener, loop)
            except TransportError as error:
                _log.debug("nothing is heard of ended jobs: %s", error.code)
                self._stopped.wait(_AGAIN_S)
            except RuntimeError:
                # The event loop is closed: nobody is there any more.
                return
            finally:
                self.live = False

    def _hear(self, listener: EndedJobs, loop: asyncio.AbstractEventLoop) -> None:
        while not self._stopped.is_set():
            job_ids = listener.wait(_WAIT_MS, self._stopped.is_set)
            if job_ids:
                loop.call_soon_threadsafe(self._heard, job_ids)
