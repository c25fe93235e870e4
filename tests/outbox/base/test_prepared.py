"""Statements sent as text: the same rows and values as SQLAlchemy's own execution, on every database."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa

from outbox.base.clock import DatabaseClock, moment, stamp
from outbox.base.ids import new_id
from outbox.base.keyed import Keyed, one_of, pair_of, words
from outbox.base.prepared import Prepared
from tests.outbox.base.notes import NOTES, read, write

C = NOTES.c
AT = datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)


def full_row(n: int) -> dict[str, Any]:
    return {
        "digest": bytes([n]) * 32, "kind": "kind", "title": "100 % %s ? :x \\ '🎓'", "body": "测" * 70_000,
        "raw": bytes(range(256)), "at": AT, "score": 2**63 - 1, "n": n, "window": None,
    }  # fmt: skip


def test_a_row_comes_back_with_the_values_of_its_column_types(conn: sa.Connection) -> None:
    id_ = write(conn, **full_row(1))

    [row] = Keyed(sa.select(NOTES).where(one_of(C.id))).fetch(conn, [id_])

    assert dict(zip(C.keys(), row, strict=True)) == {"id": id_, **full_row(1)}


def test_a_select_without_keys_reads_the_same(conn: sa.Connection) -> None:
    id_ = write(conn, **full_row(1))
    write(conn, n=2)

    rows = Prepared(sa.select(NOTES).where(C.n == sa.bindparam("wanted"))).fetch(conn, wanted=1)

    assert [dict(zip(C.keys(), row, strict=True)) for row in rows] == [{"id": id_, **full_row(1)}]


@pytest.mark.parametrize("count", [1, 2, 700])
def test_any_number_of_keys_names_exactly_its_rows(conn: sa.Connection, count: int) -> None:
    ids = [write(conn, n=0) for _ in range(count)]
    others = [write(conn, n=0) for _ in range(2)]

    changed = Keyed(sa.update(NOTES).where(one_of(C.id)).values(n=sa.bindparam("to"))).execute(
        conn, [*ids, new_id()], to=7
    )

    assert changed == count
    assert read(conn) == [7] * count + [0] * len(others)


def test_no_keys_name_no_row(conn: sa.Connection) -> None:
    write(conn, n=1)

    assert Keyed(sa.delete(NOTES).where(one_of(C.id))).execute(conn, []) == 0
    assert Keyed(sa.delete(NOTES).where(pair_of(C.id, C.n))).execute(conn, {}) == 0
    assert read(conn) == [1]


def test_a_key_counts_only_under_its_own_number(conn: sa.Connection) -> None:
    one, two, three = (write(conn, n=n) for n in (1, 2, 2))
    take = Keyed(sa.update(NOTES).where(pair_of(C.id, C.n), C.kind.is_(None)).values(kind="taken"))

    assert take.execute(conn, {1: [one, two], 2: [three]}) == 2
    assert read(conn, "kind") == ["taken", None, "taken"]


def test_other_conditions_hold_beside_every_group_of_keys(conn: sa.Connection) -> None:
    """The groups are joined by OR: without brackets the fence behind them would guard the last one only."""
    ids = [
        write(conn, n=n, kind=kind)
        for n, kind in ((1, "open"), (2, "shut"), (1, "shut"), (2, "open"))
    ]
    take = Keyed(sa.update(NOTES).where(pair_of(C.id, C.n), C.kind == "open").values(score=9))

    assert take.execute(conn, {1: [ids[0], ids[2]], 2: [ids[1], ids[3]]}) == 2
    assert read(conn, "score") == [9, None, None, 9]


def test_parameters_stand_on_both_sides_of_the_keys(
    conn: sa.Connection, clock: DatabaseClock
) -> None:
    old, new = write(conn, n=1, at=AT), write(conn, n=1, at=datetime(2090, 1, 1, tzinfo=UTC))
    touch = Keyed(
        sa.update(NOTES)
        .where(C.n == sa.bindparam("was"), one_of(C.id), C.at < moment("now_us"))
        .values(title=sa.bindparam("name"), at=stamp("later_us"))
    )

    changed = touch.execute(
        conn, [old, new], was=1, name="100 % ' \\", now_us=clock.us(), later_us=clock.us(60_000)
    )

    assert changed == 1
    assert read(conn, "title") == ["100 % ' \\", None]
    now = clock.read(conn)
    assert 30 < (read(conn, "at")[0] - now).total_seconds() <= 60


def test_constants_of_the_statement_need_not_be_given(conn: sa.Connection) -> None:
    for kind in ("a", "b_c", "d.e", "f"):
        write(conn, kind=kind, n=1)

    chosen = Prepared(
        sa.update(NOTES).where(C.kind.in_(words("a", "b_c", "d.e")), C.n == 1).values(n=5)
    )

    assert chosen.execute(conn) == 3
    assert sorted(read(conn)) == [1, 5, 5, 5]


@pytest.mark.parametrize("word", ["it's", "two words", "", "Ä", "a;b"])
def test_only_plain_names_are_written_into_a_text(word: str) -> None:
    with pytest.raises(AssertionError):
        words(word)


def test_nothing_but_an_id_can_be_a_key(conn: sa.Connection) -> None:
    wrong: list[UUID] = ["' OR 1=1 --"]  # type: ignore[list-item]

    with pytest.raises(AttributeError):
        Keyed(sa.delete(NOTES).where(one_of(C.id))).execute(conn, wrong)
    with pytest.raises(ValueError, match="invalid literal"):
        Keyed(sa.delete(NOTES).where(pair_of(C.id, C.n))).execute(conn, {"1 OR 1=1": [new_id()]})  # type: ignore[dict-item]


def test_keys_are_found_by_the_index(conn: sa.Connection) -> None:
    """A condition that is compared with 1 is read row by row: a claim would lock the whole table on MySQL."""
    texts: list[str] = []
    sa.event.listen(conn, "before_cursor_execute", lambda _c, _u, text, *_: texts.append(text))

    Keyed(sa.delete(NOTES).where(pair_of(C.id, C.n), C.n > 0)).execute(conn, {1: [new_id()]})

    assert ") = 1" not in texts[-1]
    assert ")) AND" in texts[-1]
