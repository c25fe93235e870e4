"""Facts are emitted, others format them: logs and metrics listen, domain code never writes a log line.

A fact is a dotted name in the past tense and ids or counts; never a payload, an output, a key or a user.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any

Listener = Callable[[str, Mapping[str, Any]], None]

_log = logging.getLogger("aijobs.telemetry")


class Telemetry:
    """A place to emit facts to. Every process has one; the composition root hands it down."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []
        self._counts: Counter[str] = Counter()
        self._lock = Lock()

    def listen(self, listener: Listener) -> None:
        """Call ``listener(name, ids)`` for every later fact; what it raises is logged and swallowed."""
        self._listeners.append(listener)

    def emit(self, name: str, count: int = 1, **ids: Any) -> None:
        """Say that ``name`` happened ``count`` times. Never raises: telemetry cannot fail work (PC-1)."""
        with self._lock:
            self._counts[name] += count
        for listener in self._listeners:
            try:
                listener(name, {"count": count, **ids})
            except Exception:  # noqa: BLE001 - it is not the work's failure
                _log.exception("a telemetry listener failed on %s", name)

    def count(self, name: str) -> int:
        """How often ``name`` has happened in this process."""
        return self._counts[name]

    def counts(self) -> dict[str, int]:
        """All counts of this process so far."""
        with self._lock:
            return dict(self._counts)
