"""Writing through a database outage: what was paid for is not thrown away because of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from outbox.base.backoff import exponential
from outbox.base.errors import CommitOutcomeUnknown, DatabaseContention, DatabaseUnavailable
from outbox.base.telemetry import Telemetry

T = TypeVar("T")

#: Errors of the database that end by themselves and blame no job (OB-2, DB-10).
PASSING: Final = (DatabaseUnavailable, DatabaseContention, CommitOutcomeUnknown)


async def persist(write: Callable[[], Awaitable[T]], telemetry: Telemetry) -> T:
    """Repeat ``write`` with growing pauses until the database takes it; cancelling ends that.

    Only for writes that may be repeated when the answer to their COMMIT was lost.
    """
    failures = 0
    while True:
        try:
            return await write()
        except PASSING as error:
            failures += 1
            telemetry.emit("settle.database_unavailable", code=error.code)
            await asyncio.sleep(exponential(failures, base_ms=100, limit_ms=5_000) / 1000)
