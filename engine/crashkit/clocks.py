"""A host whose clock is wrong: in this process alone, and without touching the machine's."""

from __future__ import annotations

import datetime
import time
from typing import Any
from uuid import UUID

import outbox.base.ids as ids


def shift(seconds: int) -> None:
    """Let every wall clock of this process be wrong by ``seconds``; monotonic time goes on as ever.

    Covers what Python code asks, and the time that new ids begin with. Time-outs of sockets and of C code do
    not depend on the wall clock.
    """
    for name, unit in (("time", 1), ("time_ns", 1_000_000_000)):
        _replace(name, getattr(time, name), seconds * unit)
    right = vars(ids)["uuid7"]

    def uuid7() -> UUID:
        """The first 48 bits are milliseconds of the wall clock."""
        return UUID(int=right().int + (seconds * 1_000 << 80))

    vars(ids)["uuid7"] = uuid7
    vars(datetime)["datetime"] = _wrong_datetime(datetime.datetime, datetime.timedelta(seconds=seconds))


def _replace(name: str, right: Any, more: int) -> None:
    vars(time)[name] = lambda: right() + more


def _wrong_datetime(right: type[datetime.datetime], more: datetime.timedelta) -> type[datetime.datetime]:
    class WrongDatetime(right):  # type: ignore[valid-type, misc]
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:
            return right.now(tz) + more

    return WrongDatetime
