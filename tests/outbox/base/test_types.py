"""A value comes back equal from every database, or is refused by every database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa

from outbox.base.errors import NaiveDatetimeError
from outbox.base.ids import new_id
from tests.outbox.base.notes import NOTES, read, write

AT = datetime(2026, 3, 29, 1, 30, 59, 700_001, tzinfo=UTC)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("id", UUID(int=0)),
        ("id", UUID("00112233-4455-6677-8899-aabbccddeeff")),
        ("digest", bytes(range(32))),
        ("digest", b"\x00" * 32),
        ("kind", "~!"),
        ("title", "  spaces  "),
        ("title", "naïve 测 🎓 \\ ' \" % :x"),
        ("body", "测" * 100_000),
        ("body", ""),
        ("raw", bytes(range(256)) * 300),
        ("raw", b""),
        ("at", AT),
        ("at", datetime(1970, 1, 1, tzinfo=UTC)),
        ("at", datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)),
        ("score", -(2**63)),
        ("score", 2**63 - 1),
    ],
)
def test_a_value_comes_back_as_it_was(conn: sa.Connection, column: str, value: Any) -> None:
    write(conn, **{column: value})

    (stored,) = read(conn, column)

    assert stored == value
    assert type(stored) is type(value)
    found = sa.select(sa.func.count()).where(NOTES.c[column] == value)
    assert conn.execute(found).scalar_one() == 1


@pytest.mark.parametrize("column", [c.name for c in NOTES.columns if c.name != "id"])
def test_no_value_is_null(conn: sa.Connection, column: str) -> None:
    write(conn, **{column: None})

    assert read(conn, column) == [None]
    assert (
        conn.execute(sa.select(sa.func.count()).where(NOTES.c[column].is_(None))).scalar_one() == 1
    )


@pytest.mark.parametrize("column", ["kind", "title"])
@pytest.mark.parametrize(("one", "other"), [("order-a", "Order-A"), ("resume", "rEsume")])
def test_text_is_compared_byte_for_byte(
    conn: sa.Connection, column: str, one: str, other: str
) -> None:
    write(conn, **{column: one})

    assert conn.execute(sa.select(NOTES.c[column]).where(NOTES.c[column] == other)).all() == []


@pytest.mark.parametrize(("one", "other"), [("resume", "résumé"), ("a", "\uff41"), ("ß", "ss")])
def test_accents_and_widths_make_other_texts(conn: sa.Connection, one: str, other: str) -> None:
    write(conn, title=one)

    assert conn.execute(sa.select(NOTES.c.title).where(NOTES.c.title == other)).all() == []


def test_too_long_text_is_refused_and_never_cut(server_engine: sa.Engine) -> None:
    with server_engine.connect() as conn, pytest.raises(sa.exc.DataError):
        write(conn, title="x" * 21)


@pytest.mark.parametrize(
    "zone", [UTC, timezone(timedelta(hours=8)), timezone(-timedelta(hours=9, minutes=30))]
)
def test_an_instant_is_kept_whatever_its_zone(conn: sa.Connection, zone: timezone) -> None:
    write(conn, at=AT.astimezone(zone))

    (stored,) = read(conn, "at")

    assert stored == AT
    assert stored.utcoffset() == timedelta(0)
    assert conn.execute(sa.select(NOTES.c.at).where(NOTES.c.at <= AT.astimezone(zone))).all()


def test_a_naive_time_is_refused_as_a_value_and_as_a_condition(conn: sa.Connection) -> None:
    naive = AT.replace(tzinfo=None)

    with pytest.raises(sa.exc.StatementError) as refused:
        write(conn, at=naive)
    assert isinstance(refused.value.orig, NaiveDatetimeError)

    with pytest.raises(sa.exc.StatementError) as refused:
        conn.execute(sa.select(NOTES.c.at).where(NOTES.c.at <= naive))
    assert isinstance(refused.value.orig, NaiveDatetimeError)


def test_fractions_of_a_second_keep_six_digits_and_their_order(conn: sa.Connection) -> None:
    times = [AT.replace(microsecond=us) for us in (0, 1, 499_999, 500_000, 700_000, 999_999)]
    for at in reversed(times):
        write(conn, at=at)

    ordered = conn.execute(sa.select(NOTES.c.at).order_by(NOTES.c.at)).scalars().all()

    assert ordered == times


def test_equal_ids_have_one_meaning_on_both_spellings_of_the_url(mariadb_url: str) -> None:
    note = new_id()
    for driver in ("mariadb+pymysql", "mysql+pymysql"):
        engine = sa.create_engine(mariadb_url.replace("mariadb+pymysql", driver))
        with engine.begin() as conn:
            NOTES.create(conn, checkfirst=True)
            if driver.startswith("mariadb"):
                write(conn, id=note)
            assert (
                conn.execute(sa.select(NOTES.c.id).where(NOTES.c.id == note)).scalar_one() == note
            )
        engine.dispose()
