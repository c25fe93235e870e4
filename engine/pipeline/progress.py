"""Progress on its way to the row: the latest value of each job, a few times a second, fenced (X77)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, Final

import sqlalchemy as sa

from engine.errors import ProgressInvalid
from engine.lifecycle.lease import Lease
from engine.lifecycle.repository import AiJobLifecycleRepository
from engine.pipeline.work import Work
from outbox.base.db import UnitOfWork
from outbox.base.errors import DatabaseError
from outbox.base.text import storable

_log = logging.getLogger("aijobs.progress")

#: At most this often, in s: what a person watches needs no more.
PERIOD_S = 0.25

#: Characters of a note that its column keeps.
_NOTE_CHARS: Final = 255


def whole_percent(percent: Any) -> int:
    """``percent`` within its bounds. Raises :class:`~engine.errors.ProgressInvalid`."""
    # int() would read a number out of these.
    if isinstance(percent, bool | str | bytes | bytearray):
        raise _not_finite(percent)
    try:
        return max(0, min(100, int(percent)))
    except (TypeError, ValueError, OverflowError):
        raise _not_finite(percent) from None


def short_note(note: Any) -> str | None:
    """What is kept of ``note``. Raises :class:`~engine.errors.ProgressInvalid`.

    What no database takes is left out here: one note would keep those of other jobs from being written.
    """
    if note is not None and not isinstance(note, str):
        raise ProgressInvalid(f"a progress note is a text, not a {type(note).__name__}")
    return None if note is None else storable(note[:_NOTE_CHARS])


def _not_finite(percent: Any) -> ProgressInvalid:
    # Anything but a float may hold content, which no error repeats.
    found = str(percent) if isinstance(percent, float) else f"a {type(percent).__name__}"
    return ProgressInvalid(f"progress is a finite number from 0 to 100, not {found}")


class ProgressWriter:
    """Gathers reports of all jobs of a process and writes the latest of each together."""

    def __init__(
        self,
        *,
        uow: UnitOfWork,
        lifecycle: AiJobLifecycleRepository,
        threads: Executor,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._uow = uow
        self._lifecycle = lifecycle
        self._threads = threads
        self._loop = loop
        self._latest: dict[Lease, tuple[int, str | None]] = {}
        self._writing = False
        self._task: asyncio.Future[None] | None = None

    def reporter(self, work: Work) -> Callable[[int, str | None], None]:
        """What ``JobContext.progress`` calls, from the loop or from a handler's thread."""

        def report(percent: int, note: str | None) -> None:
            self._loop.call_soon_threadsafe(self._note, work.lease, percent, note)

        return report

    def _note(self, lease: Lease, percent: int, note: str | None) -> None:
        before = self._latest.get(lease, (0, None))
        self._latest[lease] = (max(before[0], percent), note if note is not None else before[1])
        if not self._writing:
            self._writing = True
            self._task = asyncio.ensure_future(self._write())

    async def _write(self) -> None:
        try:
            while self._latest:
                batch, self._latest = self._latest, {}
                await self._loop.run_in_executor(self._threads, self._store, batch)
                await asyncio.sleep(PERIOD_S)
        except RuntimeError as error:
            _log.debug("progress is no longer written: %s", error)
        finally:
            self._writing = False

    def _store(self, batch: dict[Lease, tuple[int, str | None]]) -> None:
        def unit(conn: sa.Connection) -> None:
            # In one order, as every writer of several rows.
            for lease in sorted(batch, key=lambda held: held.job_id):
                self._lifecycle.report_progress(conn, lease, *batch[lease])

        try:
            self._uow.run(unit, repeatable=True)
        except DatabaseError as error:
            # Progress is for people who watch; the next report comes soon.
            _log.debug("progress was not written: %s", error.code)
