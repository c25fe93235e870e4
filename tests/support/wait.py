"""Wait for a condition, never for a number of seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

#: Seconds until a condition counts as broken. Generous: a loaded machine must not fail a correct program.
PATIENCE_S = 20.0


def eventually(
    predicate: Callable[[], T],
    timeout: float = PATIENCE_S,
    *,
    interval: float = 0.01,
    message: str | Callable[[], str] = "",
) -> T:
    """Call `predicate` until its answer is truthy and return that answer.

    `timeout` and `interval` are seconds. Raises AssertionError with the last answer when the time is up. An
    exception of the predicate passes through: a condition that cannot be asked is an error, not a "not yet".
    """
    deadline = time.monotonic() + timeout
    while True:
        answer = predicate()
        if answer:
            return answer
        if time.monotonic() >= deadline:
            text = message() if callable(message) else message
            raise AssertionError(
                f"not within {timeout:g} s: {text or repr(predicate)}; last answer: {answer!r}"
            )
        time.sleep(interval)
