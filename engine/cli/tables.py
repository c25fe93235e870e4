"""Tables for a terminal: ids stay whole, since one must be able to copy them; other columns give way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.text import Text

#: Columns that are never cut; where even they do not fit, the terminal folds the line.
WHOLE: Final = frozenset({"ID", "JOB", "EVENT", "NAME", "FINDING", "FIX", "MEANING", "RESULT"})
#: A column is cut to this many cells at most, or to its heading.
_LEAST: Final = 6
_GAP: Final = "  "

#: Colours of words that say how something stands.
STYLES: Final = {
    "succeeded": "green", "published": "green", "ok": "green",
    "running": "cyan", "processing": "cyan",
    "failed": "red", "dead": "red", "indeterminate": "red",
    "cancelled": "yellow", "discarded": "yellow", "warning": "yellow",
    "obsolete": "dim",
}  # fmt: skip


def lines(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[Text]:
    """The table as styled lines, at most ``width`` cells long where that is possible."""
    from rich.text import Text

    widths = fit(columns, rows, width)
    found = [Text(_line(columns, widths), "bold")]
    for row in rows:
        line = Text()
        for cell, cells in zip(row, widths, strict=True):
            line.append(_GAP if line else "")
            line.append(_cut(cell, cells), STYLES.get(cell, ""))
        line.rstrip()
        found.append(line)
    return found


def fit(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[int]:
    """The width of each column, in cells; the widest that may give way does so first."""
    from rich.cells import cell_len

    widths = [max(map(cell_len, column)) for column in zip(columns, *rows, strict=True)]
    excess = sum(widths) + len(_GAP) * (len(widths) - 1) - width
    yielding = [i for i, name in enumerate(columns) if name not in WHOLE]
    for i in sorted(yielding, key=lambda i: -widths[i]):
        if excess <= 0:
            break
        spare = max(0, widths[i] - max(_LEAST, len(columns[i])))
        taken = min(spare, excess)
        widths[i] -= taken
        excess -= taken
    return widths


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return _GAP.join(_cut(cell, cells_) for cell, cells_ in zip(cells, widths, strict=True)).rstrip()


def _cut(cell: str, cells: int) -> str:
    from rich.cells import cell_len, set_cell_size

    if cell_len(cell) <= cells:
        return set_cell_size(cell, cells)
    return set_cell_size(cell, cells - 1) + "\N{HORIZONTAL ELLIPSIS}"
