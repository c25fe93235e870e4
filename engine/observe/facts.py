"""Telemetry as log lines. Only fields that are known to be ids, names or numbers come through."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

#: Fields of a fact that may be logged. Any other is left out: a new one has to be thought about first.
LOGGED: Final = (
    "job_id", "job_type", "queue", "attempt", "epoch", "delivery_no", "code", "reason", "by", "run_ms",
    "pause_ms", "worker", "error",
)  # fmt: skip

#: Facts that say that something is lost, refused or out of reach, and needs a look if it goes on.
_WARNINGS: Final = frozenset(
    {
        "attempt.failed", "fetch.failed", "heartbeat.transport_unavailable", "job.failed", "job.taken_over",
        "job.type_unknown", "lease.lost", "outbox.claim_lost", "outbox.refused",
        "outbox.transport_unavailable", "outbox.unroutable", "settle.database_unavailable",
        "ticket.defer_failed", "ticket.settle_failed", "upkeep.transport_unavailable",
    }
)  # fmt: skip
#: Facts that somebody must act on.
_ERRORS: Final = frozenset({"outbox.dead"})
#: Facts of every job and every round: what a reader wants to see only when searching.
_DETAILS: Final = ("delivery.", "finish.", "job.started", "stream.", "usage.")

_log = logging.getLogger("aijobs.facts")


def level_of(name: str) -> int:
    """The log level of a fact."""
    if name in _ERRORS:
        return logging.ERROR
    if name in _WARNINGS:
        return logging.WARNING
    return logging.DEBUG if name.startswith(_DETAILS) else logging.INFO


def log_fact(name: str, ids: Mapping[str, Any]) -> None:
    """A :data:`~outbox.base.telemetry.Listener` that logs each fact as one line."""
    level = level_of(name)
    happened = ids.get("count", 1)
    if not happened or not _log.isEnabledFor(level):
        return
    fields = {key: ids[key] for key in LOGGED if ids.get(key) is not None}
    if happened != 1:
        fields["count"] = happened
    _log.log(level, "%s", name, extra={"fields": fields})
