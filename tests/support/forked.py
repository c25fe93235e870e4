"""A child process that shares what its parent had at the fork, threads excepted."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable

from tests.support.wait import PATIENCE_S


def exit_code_of(child: Callable[[], None]) -> int | None:
    """Run `child` in a fork of this process, and kill it where it does not end; None says that."""
    process = multiprocessing.get_context("fork").Process(target=child, daemon=True)
    process.start()
    process.join(PATIENCE_S)
    try:
        return process.exitcode
    finally:
        process.kill()
