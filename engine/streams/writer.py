"""Takes pieces of text from running attempts and stores them in batches, from a thread of its own.

A preview must never fail or slow the attempt it shows: ``write`` only appends to a list, and what cannot be stored is
dropped and counted. The end of the answer never depends on it, the committed output is read for that.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from uuid import UUID

from engine.streams.store import Piece, StreamStore
from outbox.base.db import UnitOfWork
from outbox.base.telemetry import Telemetry

#: Time between two batches, in seconds: what a reader can see as "at once".
_GAP_S = 0.05
#: The thread ends when nothing came for this long, in seconds.
_REST_S = 5.0
#: Characters that wait at most for one job while the database is away; more is dropped.
_BACKLOG_CHARS = 1_000_000

#: Claims whose numbers are remembered; more than a process can hold at once.
_NUMBERED = 10_000

_log = logging.getLogger("aijobs.streams")

_Key = tuple[UUID, int]


class StreamWriter:
    """One for a process. Its thread begins with a piece and ends when none has come for a while."""

    def __init__(self, uow: UnitOfWork, store: StreamStore, telemetry: Telemetry) -> None:
        self._uow = uow
        self._store = store
        self._telemetry = telemetry
        self._waiting: dict[_Key, list[str]] = {}
        self._seqs: OrderedDict[_Key, int] = OrderedDict()
        self._news = threading.Condition()
        self._idle = threading.Event()
        self._idle.set()
        self._closed = False
        self._thread: threading.Thread | None = None

    def write(self, job_id: UUID, epoch: int, text: str) -> None:
        """Show ``text`` as the next piece of what the claim ``epoch`` makes. Never raises and never waits."""
        if not text:
            return
        with self._news:
            pieces = self._waiting.setdefault((job_id, epoch), [])
            if self._closed or sum(map(len, pieces)) > _BACKLOG_CHARS:
                self._telemetry.emit("stream.dropped")
                return
            pieces.append(text)
            self._idle.clear()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="aijobs-stream", daemon=True)
                self._thread.start()
            self._news.notify()

    def flush(self, timeout_s: float = 1.0) -> bool:
        """Wait until everything that was given is stored or dropped; False after ``timeout_s``."""
        return self._idle.wait(timeout_s)

    def close(self) -> None:
        """Store what waits, at most for a second, and stop."""
        self.flush()
        with self._news:
            self._closed = True
            self._news.notify()

    # -------------------------------------------------------------- the thread

    def _run(self) -> None:
        while True:
            with self._news:
                self._news.wait_for(lambda: self._waiting or self._closed, timeout=_REST_S)
                if self._closed or not self._waiting:
                    # The next piece starts another one.
                    self._thread = None
                    return
                batch, self._waiting = self._waiting, {}
                numbered = {key: self._number(key, pieces) for key, pieces in batch.items()}
            for (job_id, _), piece in numbered.items():
                self._store_piece(job_id, piece)
            with self._news:
                if not self._waiting:
                    self._idle.set()
                self._news.wait_for(lambda: self._closed, timeout=_GAP_S)

    def _number(self, key: _Key, pieces: list[str]) -> Piece:
        self._seqs[key] = self._seqs.pop(key, 0) + 1
        if len(self._seqs) > _NUMBERED:
            self._seqs.popitem(last=False)
        return Piece(key[1], self._seqs[key], "".join(pieces))

    def _store_piece(self, job_id: UUID, piece: Piece) -> None:
        try:
            self._uow.run(lambda conn: self._store.append(conn, job_id, [piece]))
        except Exception as error:  # noqa: BLE001 - a preview can fail nothing
            self._telemetry.emit("stream.dropped")
            _log.debug("a piece was not stored: %s", type(error).__name__)
