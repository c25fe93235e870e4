"""Tables on terminals of any width: ids stay whole, the rest gives way, widest first."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from engine.cli.output import Output, clean, one_line
from engine.cli.tables import WHOLE, fit, lines

ID = "01a2299f-51a2-71b8-9a5e-0c8df9a5ce59"
COLUMNS = ("STATUS", "ID", "TYPE", "TARGET", "TRIES", "AGE", "ERROR")
ROW = ("succeeded", ID, "flashcard_generation", "file:notes about ada lovelace.md", "1/3", "18m 15s", "")


def plain(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    return [line.plain for line in lines(columns, rows, width)]


def test_where_there_is_room_nothing_is_cut() -> None:
    head, row = plain(COLUMNS, [ROW], 200)

    assert all(cell in row for cell in ROW)
    assert head.index("TYPE") == row.index("flashcard")


@pytest.mark.parametrize("width", [20, 60, 76, 100, 120])
def test_ids_stay_whole_on_a_narrow_terminal(width: int) -> None:
    assert ID in plain(COLUMNS, [ROW], width)[1]


def test_the_widest_column_gives_way_first() -> None:
    widths = fit(COLUMNS, [ROW], 110)

    assert widths[3] < len(ROW[3])
    assert widths[2] == len(ROW[2])
    assert sum(widths) + 2 * 6 == 110


def test_wide_characters_count_as_two_cells() -> None:
    head, row = plain(("WHAT", "NEXT"), [("学习卡片", "x")], 80)

    assert cell_len(head[: head.index("NEXT")]) == cell_len(row[: row.index("x")])


@given(
    rows=st.lists(st.tuples(st.text(max_size=40), st.text(max_size=40)), max_size=5),
    width=st.integers(1, 100),
)
def test_any_text_in_any_width_makes_one_line_per_row(rows: list[tuple[str, str]], width: int) -> None:
    cells = [[one_line(cell) for cell in row] for row in rows]

    found = plain(("WHAT", "ERROR"), cells, width)

    assert len(found) == len(rows) + 1
    assert all("\n" not in line for line in found)
    assert all(cell_len(line) <= max(width, 2 * 6 + 2) for line in found)


def test_columns_that_people_copy_from_are_known() -> None:
    assert {"ID", "JOB", "EVENT"} <= WHOLE


# -- texts of users and models -------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["\x1b[2J", "\x1b]0;title\x07", "\x9b31m", "a\rb", "\x00", "\x08\x08", "\u202egnp.exe"]
)
def test_no_text_can_steer_a_terminal(text: str) -> None:
    out = io.StringIO()
    output = Output(stdout=out, stderr=out)

    output.line(text)
    output.table(("X",), [(text,)])
    output.fields({"x": text})
    output.say(text)

    assert not set("\x1b\x07\x9b\r\x00\x08\u202e") & set(out.getvalue())


def test_json_escapes_what_could_steer_a_terminal_and_says_the_same() -> None:
    import json

    out = io.StringIO()
    text = "\x1b[2J \x9b31m \x7f \u202e 中文"

    Output(json=True, stdout=out).document({"x": text})

    assert json.loads(out.getvalue()) == {"x": text}
    assert not set("\x1b\x9b\x7f\u202e") & set(out.getvalue())


def test_line_breaks_and_tabs_of_content_are_kept_but_not_in_a_cell() -> None:
    assert clean("a\n\tb") == "a\n\tb"
    assert one_line("a\n\tb") == "a  b"


def test_a_pipe_gets_one_line_per_row_whatever_is_in_it() -> None:
    out = io.StringIO()

    Output(stdout=out).table(("A", "B"), [("x\ny", "p\tq"), (None, 3)])

    assert out.getvalue() == "A\tB\nx y\tp q\n\t3\n"


def test_quiet_keeps_data_and_errors_only() -> None:
    out, err = io.StringIO(), io.StringIO()
    output = Output(quiet=True, stdout=out, stderr=err)

    output.say("talk")
    output.line("data")
    output.warn("careful")

    assert (out.getvalue(), err.getvalue()) == ("data\n", "warning: careful\n")
