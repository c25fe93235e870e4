"""A forked process neither uses nor closes the database connections of its parent."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
import sqlalchemy as sa

from tests.outbox.base.notes import NOTES, write

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


def test_forked_children_and_their_parent_read_their_own_answers(server_engine: sa.Engine) -> None:
    """TR-13. A server that loads the application before it forks has used its engine by then."""
    engine = server_engine
    with engine.connect(), engine.connect(), engine.connect(), engine.connect():
        # Four lie in the pool afterwards, two of which the threads take.
        pass
    over = Event()
    with ThreadPoolExecutor(2) as threads:
        busy = [threads.submit(_until, over, engine, -n) for n in (1, 2)]
        children = [_fork(engine, number) for number in range(10)]
        codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
        over.set()
        sound = [future.result() for future in busy]

    assert codes == [0] * 10
    assert sound == [True, True]
    with engine.connect() as conn:
        notes = conn.execute(sa.select(NOTES.c.n).order_by(NOTES.c.n)).scalars().all()
    assert list(notes) == list(range(10))


def _fork(engine: sa.Engine, number: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        sound = _echoes(engine, number)
        with engine.begin() as conn:
            write(conn, n=number)
        engine.dispose()
        code = 0 if sound else 2
    finally:
        os._exit(code)


def _until(over: Event, engine: sa.Engine, number: int) -> bool:
    sound = True
    while sound and not over.is_set():
        sound = _echoes(engine, number)
    return sound


def _echoes(engine: sa.Engine, number: int) -> bool:
    """Whether the database answers this process, and no other, twenty times."""
    with engine.connect() as conn:
        asked = sa.select(sa.literal(number))
        return all(conn.execute(asked).scalar_one() == number for _ in range(20))
