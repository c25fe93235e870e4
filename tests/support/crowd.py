"""Many threads at once, let go together, whose results and errors come back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from tests.support.wait import PATIENCE_S

T = TypeVar("T")


def at_once(acts: Sequence[Callable[[], T]], timeout: float = 3 * PATIENCE_S) -> list[T | BaseException]:
    """Run every act on a thread of its own, all let go together; results, or what was raised, in order."""
    results: list[T | BaseException] = [AssertionError("did not end")] * len(acts)
    gate = threading.Barrier(len(acts))

    def run(index: int, act: Callable[[], T]) -> None:
        gate.wait(timeout)
        try:
            results[index] = act()
        except BaseException as error:
            results[index] = error

    threads = [threading.Thread(target=run, args=pair, daemon=True) for pair in enumerate(acts)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout)
    return results
