"""The preview of an answer: stored in order, read from any place, never in the way of the work."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from uuid import uuid4

import pytest
import sqlalchemy as sa

from engine.streams.models import STREAM_CHUNK
from engine.streams.store import Piece, StreamStore
from engine.streams.writer import StreamWriter
from outbox.base.clock import DatabaseClock
from outbox.base.db import UnitOfWork, create_engine_for
from outbox.base.telemetry import Telemetry
from tests.support.wait import eventually

JOB, OTHER = uuid4(), uuid4()


@pytest.fixture
def clock() -> DatabaseClock:
    return DatabaseClock()


@pytest.fixture
def engine(database_url: str) -> Iterator[sa.Engine]:
    made = create_engine_for(database_url)
    STREAM_CHUNK.create(made)
    yield made
    made.dispose()


@pytest.fixture
def uow(engine: sa.Engine) -> UnitOfWork:
    return UnitOfWork(engine)


@pytest.fixture
def store(clock: DatabaseClock) -> StreamStore:
    return StreamStore(clock)


@pytest.fixture
def telemetry() -> Telemetry:
    return Telemetry()


@pytest.fixture
def writer(uow: UnitOfWork, store: StreamStore, telemetry: Telemetry) -> Iterator[StreamWriter]:
    made = StreamWriter(uow, store, telemetry)
    yield made
    made.close()


def test_pieces_are_read_in_order_from_any_place(uow: UnitOfWork, store: StreamStore) -> None:
    pieces = [Piece(1, 1, "a"), Piece(1, 2, "ä\n"), Piece(2, 1, "b"), Piece(2, 2, "c" * 70_000)]
    uow.run(lambda conn: store.append(conn, JOB, list(reversed(pieces))))
    uow.run(lambda conn: store.append(conn, OTHER, [Piece(1, 1, "other")]))

    def after(*place: int) -> list[Piece]:
        return uow.read(lambda conn: store.after(conn, JOB, *place))

    assert after() == pieces
    assert after(1, 1) == pieces[1:]
    assert after(1, 99) == pieces[2:]
    assert after(2, 2) == []
    assert after(0, 0, 2) == pieces[:2]


def test_purge_takes_the_old_and_leaves_the_young(
    uow: UnitOfWork, store: StreamStore, clock: DatabaseClock
) -> None:
    uow.run(lambda conn: store.append(conn, JOB, [Piece(1, n, "x") for n in range(5)]))
    clock.advance(3_600_000)
    uow.run(lambda conn: store.append(conn, OTHER, [Piece(1, 1, "young")]))

    purged = [uow.run(lambda conn: store.purge(conn, older_ms=60_000, limit=3)) for _ in range(3)]

    assert purged == [3, 2, 0]
    assert len(uow.read(lambda conn: store.after(conn, OTHER))) == 1


def test_what_is_written_is_stored_in_order_and_numbered_without_a_gap(
    writer: StreamWriter, uow: UnitOfWork, store: StreamStore
) -> None:
    for number in range(200):
        writer.write(JOB, 3, f"{number} ")
        if number % 50 == 0:
            assert writer.flush(10)
    writer.write(JOB, 3, "")
    assert writer.flush(10)

    pieces = uow.read(lambda conn: store.after(conn, JOB))
    assert "".join(p.text for p in pieces) == "".join(f"{n} " for n in range(200))
    assert [p.seq for p in pieces] == list(range(1, len(pieces) + 1))
    assert {p.epoch for p in pieces} == {3}


def test_many_attempts_are_kept_apart(
    writer: StreamWriter, uow: UnitOfWork, store: StreamStore
) -> None:
    def write(epoch: int) -> None:
        for number in range(50):
            writer.write(JOB, epoch, f"{number},")

    threads = [threading.Thread(target=write, args=(epoch,)) for epoch in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert writer.flush(10)

    pieces = uow.read(lambda conn: store.after(conn, JOB))
    whole = "".join(f"{n}," for n in range(50))
    for epoch in (1, 2, 3):
        assert "".join(p.text for p in pieces if p.epoch == epoch) == whole


def test_database_that_is_away_costs_the_preview_and_nothing_else(
    writer: StreamWriter, engine: sa.Engine, telemetry: Telemetry
) -> None:
    STREAM_CHUNK.drop(engine)

    writer.write(JOB, 1, "lost")

    eventually(lambda: telemetry.count("stream.dropped") == 1)
    writer.write(JOB, 1, "lost too")
    eventually(lambda: telemetry.count("stream.dropped") == 2)


def test_backlog_is_bounded(engine: sa.Engine, store: StreamStore, telemetry: Telemetry) -> None:
    entered, gate = threading.Event(), threading.Event()

    class Slow(UnitOfWork):
        def run(self, *args: object, **more: object) -> object:  # type: ignore[override]
            entered.set()
            gate.wait(30)
            return super().run(*args, **more)  # type: ignore[arg-type]

    writer = StreamWriter(Slow(engine), store, telemetry)
    writer.write(JOB, 1, "first")
    assert entered.wait(10)
    for _ in range(30):
        writer.write(JOB, 1, "x" * 100_000)
    gate.set()
    writer.close()

    assert telemetry.count("stream.dropped") >= 15


def test_thread_ends_when_nothing_comes_and_begins_again(
    writer: StreamWriter, uow: UnitOfWork, store: StreamStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.streams.writer._REST_S", 0.05)

    def running() -> bool:
        return any(thread.name == "aijobs-stream" for thread in threading.enumerate())

    for text in ("a", "b"):
        writer.write(JOB, 1, text)
        assert writer.flush(10)
        eventually(lambda: not running())

    assert [p.text for p in uow.read(lambda conn: store.after(conn, JOB))] == ["a", "b"]
