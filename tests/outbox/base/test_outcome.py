"""What becomes of a transaction: told to those who wait for it, once, and to nobody else's."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Iterator

import pytest
import sqlalchemy as sa

from outbox.base import outcome
from outbox.base.bulk import RowInsert
from outbox.base.db import UnitOfWork, prepare_engine
from outbox.base.ids import new_id
from outbox.base.outcome import refuse_commit, tell_outcome
from tests.outbox.base.notes import NOTES, write
from tests.support.forked import exit_code_of

_INSERT = RowInsert(NOTES, ["id", "title", "n"])


class Listener:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def __call__(self) -> None:
        self.told.append("committed")

    def doubt(self) -> None:
        self.told.append("doubt")


@pytest.fixture
def listener() -> Listener:
    return Listener()


@pytest.fixture
def plain(engine: sa.Engine) -> Iterator[sa.Engine]:
    """An engine of a host's own."""
    plain = sa.create_engine(engine.url)
    yield plain
    plain.dispose()


def count(engine: sa.Engine) -> int:
    with engine.connect() as conn:
        return int(conn.execute(sa.select(sa.func.count()).select_from(NOTES)).scalar_one())


def test_it_is_told_when_the_commit_was_sent_and_once(engine: sa.Engine, uow: UnitOfWork, listener: Listener) -> None:
    with engine.connect() as conn:
        write(conn)
        tell_outcome(conn, listener)
        assert listener.told == []
        conn.commit()
        assert listener.told == ["committed"]
        write(conn)
        conn.commit()
    assert listener.told == ["committed"]


@pytest.mark.parametrize("end", [sa.Connection.rollback, sa.Connection.close, sa.Connection.invalidate])
def test_a_transaction_that_is_over_otherwise_tells_nobody(
    engine: sa.Engine, uow: UnitOfWork, listener: Listener, end: Callable[[sa.Connection], None]
) -> None:
    conn = engine.connect()
    write(conn)
    tell_outcome(conn, listener)
    end(conn)
    conn.close()
    uow.run(write)

    assert listener.told == []


def test_a_connection_that_nobody_gave_back_tells_nobody(
    engine: sa.Engine, uow: UnitOfWork, listener: Listener
) -> None:
    """Its next user's COMMIT says nothing about it."""
    conn = engine.connect()
    write(conn)
    tell_outcome(conn, listener)
    del conn
    gc.collect()

    for _ in range(3):
        uow.run(write)
    assert listener.told == []


def test_a_refused_commit_rolls_back_and_the_next_transaction_is_a_new_one(
    engine: sa.Engine, uow: UnitOfWork, listener: Listener
) -> None:
    with engine.connect() as conn:
        write(conn)
        tell_outcome(conn, listener)
        refuse_commit(conn, ZeroDivisionError)
        with pytest.raises(ZeroDivisionError):
            conn.commit()
        conn.rollback()
        write(conn)
        conn.commit()

    assert listener.told == []
    assert count(engine) == 1


def test_a_copied_dialect_tells_as_well(engine: sa.Engine, uow: UnitOfWork, listener: Listener) -> None:
    with engine.execution_options(logging_token="copy").begin() as conn:
        write(conn)
        tell_outcome(conn, listener)

    assert listener.told == ["committed"]


@pytest.mark.databases("mariadb")
def test_an_engine_that_was_prepared_after_its_first_waiter_tells_with_what_is_kept(
    engine: sa.Engine, plain: sa.Engine, listener: Listener
) -> None:
    with plain.begin() as conn:
        tell_outcome(conn, Listener())
    with prepare_engine(plain).begin() as conn:
        _INSERT.write(conn, [{"id": new_id(), "title": "", "n": 1}])
        tell_outcome(conn, listener)

    assert (listener.told, count(engine)) == (["committed"], 1)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_process_that_is_forked_while_a_dialect_is_taken_hold_of_can_do_so_itself() -> None:
    """TR-13. The thread that holds the lock is not in the child."""
    engine = sa.create_engine("sqlite://")

    def child() -> None:
        outcome._watch(engine.dialect)
        sys.exit(0)

    held, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        with outcome._replacing:
            held.set()
            go_on.wait(30)

    holder = threading.Thread(target=hold)
    holder.start()
    assert held.wait(10)
    try:
        assert exit_code_of(child) == 0
    finally:
        go_on.set()
        holder.join()
