"""Many rows in one INSERT, with the same values as ever, on every database."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import Any

import pytest
import sqlalchemy as sa

from outbox.base import bulk
from outbox.base.bulk import MAX_ROWS, RowInsert
from outbox.base.clock import DatabaseClock, epoch_ms, moment, stamp
from outbox.base.ids import new_id
from tests.outbox.base.notes import NOTES, count, read

AT = datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)


def digest(text: object) -> bytes:
    return hashlib.sha256(str(text).encode()).digest()


def test_values_go_through_their_column_types(conn: sa.Connection) -> None:
    insert = RowInsert(NOTES, [column.name for column in NOTES.columns])
    rows = [
        {
            "id": new_id(),
            "digest": digest(n),
            "kind": "kind",
            "title": "100 % %s ? :x \\ '🎓'",
            "body": "测" * 70_000,
            "raw": bytes(range(256)),
            "at": AT,
            "score": 2**63 - 1,
            "n": n,
            "window": None,
        }
        for n in range(3)
    ]

    insert.execute(conn, rows)

    stored = conn.execute(sa.select(NOTES).order_by(NOTES.c.n)).mappings()
    assert [dict(row) for row in stored] == rows


@pytest.mark.parametrize("rows", [0, 1, MAX_ROWS, MAX_ROWS + 1, 1200])
def test_any_number_of_rows_is_inserted(conn: sa.Connection, rows: int) -> None:
    insert = RowInsert(NOTES, ["id", "n"])

    inserted = insert.execute(conn, [{"id": new_id(), "n": n} for n in range(rows)])

    assert inserted == rows
    assert read(conn) == list(range(rows))


def test_many_rows_are_few_statements(engine: sa.Engine) -> None:
    sent: list[str] = []
    sa.event.listen(
        engine, "before_cursor_execute", lambda _c, _u, statement, *_: sent.append(statement)
    )
    insert = RowInsert(NOTES, ["id", "n"])

    with engine.begin() as conn:
        insert.execute(conn, [{"id": new_id(), "n": 1} for _ in range(1200)])

    assert sum(statement.startswith("INSERT") for statement in sent) == 3


def test_expressions_take_bound_values_from_each_row_or_from_all(
    conn: sa.Connection, clock: DatabaseClock
) -> None:
    insert = RowInsert(
        NOTES, ["id", "n"], expressions={"at": stamp("now_us"), "score": epoch_ms("score_us")}
    )
    rows = [{"id": new_id(), "n": n, "score_us": n * 10_000_000} for n in (1, 2)]

    insert.execute(conn, rows, now_us=clock.us(60_000))

    low, high = read(conn, "score")
    # each row's clock may be read on its own
    assert 10_000 <= high - low < 10_000 + 60_000
    due = sa.select(sa.func.count()).select_from(NOTES).where(NOTES.c.at <= moment("us"))
    assert conn.execute(due, {"us": clock.us()}).scalar_one() == 0
    assert conn.execute(due, {"us": clock.us(120_000)}).scalar_one() == 2


def test_constants_are_in_every_row(conn: sa.Connection) -> None:
    insert = RowInsert(NOTES, ["id"], constants={"kind": "fixed", "n": 3})

    insert.execute(conn, [{"id": new_id()}, {"id": new_id()}])

    assert conn.execute(sa.select(NOTES.c.kind, NOTES.c.n)).all() == [("fixed", 3), ("fixed", 3)]


def test_a_value_that_is_nowhere_is_an_error(conn: sa.Connection) -> None:
    with pytest.raises(KeyError):
        RowInsert(NOTES, ["id", "n"]).execute(conn, [{"id": new_id()}])

    assert count(conn) == 0


def known() -> RowInsert:
    return RowInsert(NOTES, ["id", "digest", "title", "n"], unless_exists="digest")


def row(text: str, n: int) -> dict[str, Any]:
    return {"id": new_id(), "digest": digest(text), "title": text, "n": n}


def test_a_row_that_exists_is_left_out_and_left_alone(conn: sa.Connection) -> None:
    insert = known()
    first = row("a", 1)
    insert.execute(conn, [first])

    insert.execute(conn, [row("b", 2), row("a", 3), row("c", 4)])

    assert read(conn) == [1, 2, 4]
    kept = conn.execute(sa.select(NOTES.c.id).where(NOTES.c.digest == digest("a"))).scalar_one()
    assert kept == first["id"]


def test_the_first_of_equal_rows_in_one_statement_is_kept(conn: sa.Connection) -> None:
    known().execute(conn, [row("a", 1), row("a", 2), row("b", 3), row("b", 4)])

    assert read(conn) == [1, 3]


def test_rows_without_the_value_never_exist(conn: sa.Connection) -> None:
    rows = [row("a", n) | {"digest": None} for n in range(3)]

    known().execute(conn, rows)
    known().execute(conn, [row("a", 3) | {"digest": None}])

    assert read(conn) == [0, 1, 2, 3]


def test_among_1200_rows_exactly_the_known_are_left_out(conn: sa.Connection) -> None:
    insert = known()
    insert.execute(conn, [row(str(n), n) for n in range(0, 1200, 3)])

    insert.execute(conn, [row(str(n), n) for n in range(1200)])

    assert sorted(read(conn)) == list(range(1200))


def test_too_long_text_is_an_error_beside_a_duplicate_too(server_engine: sa.Engine) -> None:
    with server_engine.connect() as conn:
        known().execute(conn, [row("a", 1)])
        conn.commit()

        with pytest.raises(sa.exc.DataError):
            known().execute(conn, [row("a", 2), row("x" * 21, 3)])
        conn.rollback()

        assert read(conn) == [1]


@pytest.mark.parametrize("rows", [1, 1200])
def test_inserted_rows_are_reported(conn: sa.Connection, rows: int) -> None:
    insert = RowInsert(
        NOTES,
        ["id", "digest", "n"],
        expressions={"at": stamp()},
        unless_exists="digest",
        returning=["id", "n", "at"],
    )
    new = [row(str(n), n) for n in range(rows)]
    assert insert.returns(conn)

    reported = sorted(insert.fetch(conn, new, now_us=0))

    assert [(id_, n) for id_, n, _ in reported] == [(one["id"], one["n"]) for one in new]
    assert [at for _, _, at in reported] == read(conn, "at")


def test_of_an_existing_row_nothing_or_the_old_one_is_reported(conn: sa.Connection) -> None:
    insert = RowInsert(NOTES, ["id", "digest", "n"], unless_exists="digest", returning=["id"])
    assert insert.returns(conn)
    first = row("a", 1)
    insert.execute(conn, [first])

    (*old, new) = insert.fetch(conn, [row("a", 2), second := row("b", 3)])

    assert new == (second["id"],)
    assert old in ([], [(first["id"],)])


def test_mysql_is_known_not_to_report() -> None:
    insert = RowInsert(NOTES, ["id"], returning=["id"])
    dialect = sa.make_url("mysql+pymysql://").get_dialect()()

    assert not dialect.insert_returning
    assert insert._compile(dialect).suffix == ""


def test_without_the_exception_a_duplicate_is_an_error(conn: sa.Connection) -> None:
    insert = RowInsert(NOTES, ["id", "digest"])
    insert.execute(conn, [{"id": new_id(), "digest": digest("a")}])

    with pytest.raises(sa.exc.IntegrityError):
        insert.execute(conn, [{"id": new_id(), "digest": digest("a")}])


def test_one_insert_serves_several_databases(
    sqlite_url: str, mariadb_url: str, postgresql_url: str
) -> None:
    insert = known()

    for url in (sqlite_url, mariadb_url, mariadb_url.replace("mariadb+", "mysql+"), postgresql_url):
        engine = sa.create_engine(url)
        with engine.begin() as conn:
            NOTES.create(conn, checkfirst=True)
            insert.execute(conn, [row("a", 1), row("a", 2)])
            assert read(conn) == [1]
        engine.dispose()


def sent_with(conn: sa.Connection, rows: list[dict[str, Any]]) -> tuple[str, tuple[Any, ...]]:
    """The text and the parameters that go to the driver for ``rows``."""
    sent: list[tuple[str, tuple[Any, ...]]] = []
    sa.event.listen(
        conn, "before_cursor_execute", lambda _c, _u, text, values, *_: sent.append((text, values))
    )
    RowInsert(NOTES, list(rows[0])).execute(conn, rows)
    return sent[-1]


@pytest.mark.parametrize("kind", ["kind", "a-b_c.d:e/f@g", "", "it's", "100%", "a?b", "\\", None])
def test_what_all_rows_share_is_stored_like_anything_else(
    conn: sa.Connection, kind: str | None
) -> None:
    rows = [
        {"id": new_id(), "kind": kind, "n": -7, "score": 2**63 - 1, "window": None, "raw": b"'"}
        for _ in range(20)
    ]

    sent_with(conn, rows)

    stored = conn.execute(sa.select(*(NOTES.c[name] for name in rows[0])).order_by(NOTES.c.id))
    assert [dict(row) for row in stored.mappings()] == rows


def test_names_and_numbers_that_all_rows_share_are_no_parameters(conn: sa.Connection) -> None:
    _, values = sent_with(
        conn, [{"id": new_id(), "kind": "kind", "n": 3, "window": None} for _ in range(20)]
    )

    assert len(values) == 20


def test_a_callers_text_is_always_a_parameter(conn: sa.Connection) -> None:
    """An error's message shows the statement, and no parameter (promise 7)."""
    text, values = sent_with(conn, [{"id": new_id(), "title": "secret"} for _ in range(20)])

    assert "secret" not in text
    assert values.count("secret") == 20


def test_large_values_are_spread_over_statements(conn: sa.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """A packet has a limit on MySQL and MariaDB; one row beyond it goes alone, and none is lost."""
    monkeypatch.setattr(bulk, "MAX_BYTES", 20)
    sent: list[str] = []
    sa.event.listen(conn, "before_cursor_execute", lambda _c, _u, statement, *_: sent.append(statement))
    titles = ["x" * length for length in (10, 10, 1, 20, 8, 8, 8, 0)]

    insert = RowInsert(NOTES, ["id", "title"], bulky="title")
    insert.execute(conn, [{"id": new_id(), "title": title} for title in titles])

    assert sum(statement.startswith("INSERT") for statement in sent) == 5
    assert sorted(read(conn, "title")) == sorted(titles)
