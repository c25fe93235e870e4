"""Who is there: workers and dispatchers, as workers.lua tells of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from outbox.transports.base import WorkerPresence
from outbox.transports.rq.batches import chunks

#: Values per process in the answer.
_VALUES = 7


def present(values: Sequence[Any], stem: str) -> list[WorkerPresence]:
    """The processes of an answer, by name; their keys begin with ``stem``."""
    return sorted((_presence(stem, *row) for row in chunks(values, _VALUES)), key=lambda one: one.name)


def _presence(
    stem: str, key: bytes, queues: bytes, hostname: bytes, pid: bytes, up: bytes, silent: bytes, executing: int
) -> WorkerPresence:
    return WorkerPresence(
        name=key.decode().removeprefix(stem),
        queues=tuple(queues.decode().split(",")) if queues else (),
        hostname=hostname.decode(),
        pid=int(pid),
        up_ms=int(up),
        silent_ms=int(silent),
        executing=executing,
    )
