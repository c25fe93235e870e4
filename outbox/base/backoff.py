"""Growing waits with jitter, as pure functions."""

from __future__ import annotations

import random
from collections.abc import Callable


def exponential(
    failures: int, *, base_ms: int, limit_ms: int, jitter: Callable[[], float] = random.random
) -> int:
    """How long to wait after ``failures`` failures in a row (1 = the first), in ms.

    The wait doubles from ``base_ms`` up to ``limit_ms``; up to a fifth of it is taken off at random, so
    that many losers of one race do not meet again.
    """
    full: int = min(limit_ms, base_ms * 2 ** min(failures - 1, 40))
    return max(1, round(full * (1 - 0.2 * jitter())))
