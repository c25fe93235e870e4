"""The loops of a daemon, each noted by what its readiness is judged by."""

from __future__ import annotations

from collections.abc import Callable

from engine.observe.readiness import SILENT_S, Progress
from outbox.base.loop import Loop

#: How long a round of upkeep may take, in seconds: after an outage it has much to do.
UPKEEP_SILENT_S = 120.0


def watched_loop(
    progress: Progress,
    name: str,
    round_: Callable[[], bool],
    interval_ms: int,
    idle: Callable[[int], object] | None = None,
) -> Loop:
    """A loop that turns every ``interval_ms`` and tells ``progress`` of its rounds."""
    silent_s = UPKEEP_SILENT_S if name.endswith("upkeep") else SILENT_S
    watched = progress.watched(name, round_, interval_ms=interval_ms, silent_s=silent_s)
    return Loop(name, watched, interval_ms=interval_ms, idle=idle)
