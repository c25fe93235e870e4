"""Runs a worker's event loop to an end that no handler can put off.

``asyncio.run`` waits for every task it has cancelled; a handler that swallows its cancellation would keep
the process for ever (TR-8, WL-17).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")

_log = logging.getLogger("aijobs.worker")

#: How long tasks that were left behind may take to end when the loop is closed, in s.
FAREWELL_S = 1.0


def run_to_end(main: Coroutine[Any, Any, T], *, leaving: Callable[[], None] = lambda: None) -> T:
    """Run ``main`` on a new event loop and return its result; what is still running then is left behind.

    A ``SystemExit`` from beside it, of a callback or of a signal handler, calls ``leaving`` and is raised when
    ``main`` has come to its end. A loop that somebody stops goes on.
    """
    loop = asyncio.new_event_loop()
    # Ours, so that a thread which never returns is not waited for.
    helpers = ThreadPoolExecutor(thread_name_prefix="aijobs-helper")
    loop.set_default_executor(helpers)
    try:
        return _run(loop, loop.create_task(main), leaving)
    finally:
        _part(loop)
        helpers.shutdown(wait=False)
        loop.close()


def _run(loop: asyncio.AbstractEventLoop, main: asyncio.Task[T], leaving: Callable[[], None]) -> T:
    left: SystemExit | None = None
    while not main.done():
        try:
            loop.run_until_complete(main)
        except SystemExit as error:
            _log.error(
                "SystemExit was raised beside the jobs; the worker stops and hands back what it holds"
            )
            left = left or error
            leaving()
        except RuntimeError:
            if main.done():
                raise
            _log.error("a job has stopped the event loop; it goes on")
    if left is not None:
        raise left
    return main.result()


def _part(loop: asyncio.AbstractEventLoop) -> None:
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        _, deaf = loop.run_until_complete(asyncio.wait(left, timeout=FAREWELL_S))
        if deaf:
            _log.warning(
                "%d handlers did not end when they were told to; they are left behind", len(deaf)
            )
    loop.run_until_complete(loop.shutdown_asyncgens())
