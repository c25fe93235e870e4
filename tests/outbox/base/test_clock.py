"""One clock decides, the database's, and it says the same on every database."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from outbox.base.clock import DatabaseClock, epoch_ms, moment, stamp
from outbox.base.db import UnitOfWork
from outbox.base.ids import new_id
from tests.outbox.base.notes import NOTES, read, write

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("shift_us", [0, 1_500_000, -1_500_000, 86_400_000_000, 1_000])
def test_a_duration_is_added_exactly(conn: sa.Connection, shift_us: int) -> None:
    times = conn.execute(
        sa.select(moment("shifted"), moment("now")), {"shifted": shift_us, "now": 0}
    ).one()

    assert times[0] - times[1] == timedelta(microseconds=shift_us)


def test_milliseconds_since_1970_agree_with_the_time(conn: sa.Connection) -> None:
    for _ in range(20):
        before, ms, after = conn.execute(
            sa.select(stamp("a"), epoch_ms("b"), stamp("c")), {"a": 0, "b": 0, "c": 0}
        ).one()

        assert in_ms(before) <= ms <= in_ms(after)


def in_ms(at: datetime) -> int:
    return (at - EPOCH) // timedelta(milliseconds=1)


@pytest.mark.parametrize("shift_us", [12_345_000, -12_345_000])
def test_milliseconds_since_1970_are_shifted_alike(conn: sa.Connection, shift_us: int) -> None:
    names = {"a": 0, "b": shift_us, "c": 0}
    before, shifted, after = conn.execute(
        sa.select(epoch_ms("a"), epoch_ms("b"), epoch_ms("c")), names
    ).one()

    assert before + shift_us // 1000 <= shifted <= after + shift_us // 1000


def test_advancing_moves_every_later_statement(uow: UnitOfWork, clock: DatabaseClock) -> None:
    still = DatabaseClock()
    clock.advance(3_600_000)
    clock.advance(1_500)

    def both(conn: sa.Connection) -> timedelta:
        query = sa.select(moment("moved"), moment("still"))
        moved, unmoved = conn.execute(query, {"moved": clock.us(), "still": still.us()}).one()
        difference: timedelta = moved - unmoved
        return difference

    assert uow.read(both) == timedelta(hours=1, milliseconds=1_500)
    assert uow.read(clock.read) >= uow.read(still.read) + timedelta(hours=1)


def test_durations_and_offset_are_one_number() -> None:
    clock = DatabaseClock()
    clock.advance(2)

    assert (clock.us(), clock.us(30_000), clock.us(0.5)) == (2_000, 30_002_000, 2_500)


def test_the_time_is_utc_and_aware(conn: sa.Connection, clock: DatabaseClock) -> None:
    at = clock.read(conn)

    assert at.utcoffset() == timedelta(0)
    # generous: the only comparison with a host's clock, to catch a zone of hours
    assert abs(at - datetime.now(UTC)) < timedelta(minutes=10)


def test_the_callers_time_zone_changes_nothing(server_engine: sa.Engine) -> None:
    zone = {"mariadb": "SET time_zone = '+08:00'", "postgresql": "SET TIME ZONE 'Asia/Shanghai'"}
    now = sa.select(moment("a"), epoch_ms("b"))
    with server_engine.connect() as conn:
        before = conn.execute(now, {"a": 0, "b": 0}).one()

        conn.exec_driver_sql(zone[conn.dialect.name])
        write(conn, at=before[0])
        after = conn.execute(now, {"a": 0, "b": 0}).one()

        assert timedelta(0) <= after[0] - before[0] < timedelta(hours=1)
        assert 0 <= after[1] - before[1] < 3_600_000
        assert read(conn, "at") == [before[0]]


def test_what_is_stamped_now_is_due_now(uow: UnitOfWork, clock: DatabaseClock) -> None:
    def create(conn: sa.Connection) -> None:
        conn.execute(sa.insert(NOTES).values(id=sa.bindparam("new"), at=stamp()), rows[-1])

    due = sa.select(sa.func.count()).select_from(NOTES).where(NOTES.c.at <= moment())
    rows: list[dict[str, object]] = []
    for number in range(1, 21):
        rows.append({"new": new_id(), "now_us": clock.us()})
        uow.run(create)

        assert uow.read(lambda c: c.execute(due, {"now_us": clock.us()}).scalar_one()) == number


def test_later_stamps_are_not_smaller(uow: UnitOfWork, clock: DatabaseClock) -> None:
    for _ in range(20):
        uow.run(lambda conn: conn.execute(_stamped(), {"now_us": clock.us()}).rowcount)

    times = uow.read(lambda conn: read(conn, "at"))
    assert times == sorted(times)


def _stamped() -> sa.Insert:
    return sa.insert(NOTES).values(id=new_id(), at=stamp())


def test_a_stored_time_is_written_like_a_given_one(
    conn: sa.Connection, clock: DatabaseClock
) -> None:
    conn.execute(_stamped(), {"now_us": clock.us()})
    (stored,) = read(conn, "at")

    same = sa.select(sa.func.count()).select_from(NOTES).where(NOTES.c.at == stored)
    assert conn.execute(same).scalar_one() == 1


@pytest.mark.parametrize("expression", [moment, stamp, epoch_ms])
def test_the_clock_goes_on_inside_a_transaction(
    server_engine: sa.Engine, expression: Callable[[str], sa.ColumnElement[Any]]
) -> None:
    pause = {"mariadb": "DO SLEEP(0.3)", "postgresql": "SELECT pg_sleep(0.3)"}
    with server_engine.connect() as conn:
        before = conn.execute(sa.select(expression("now")), {"now": 0}).scalar_one()
        conn.exec_driver_sql(pause[conn.dialect.name])
        after = conn.execute(sa.select(expression("now")), {"now": 0}).scalar_one()

    least = 300 if expression is epoch_ms else timedelta(seconds=0.3)
    assert after - before >= least


def test_a_lease_taken_late_in_a_statement_has_its_full_time(postgresql_url: str) -> None:
    engine = sa.create_engine(postgresql_url)
    with engine.connect() as conn:
        # the statement begins, waits, and only then takes the lease
        waited = sa.select(sa.func.pg_sleep(0.3)).cte("waited").prefix_with("MATERIALIZED")
        begun, taken = conn.execute(
            sa.select(moment("a"), stamp("b")).select_from(waited), {"a": 0, "b": 0}
        ).one()
    engine.dispose()

    assert taken - begun >= timedelta(seconds=0.3)
