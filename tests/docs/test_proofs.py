"""Every test that the pages name exists, and no promise, crash window or known failure is without one."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

PAGE = "docs/known_failures.md"

#: How many known failures each family has.
KNOWN = {"CI": 9, "OB": 11, "TR": 15, "WL": 17, "PC": 6, "DB": 13, "AH": 6, "EW": 9}
NOT_BUILT = "not built yet"

_NAMED = re.compile(r"`([\w/]+\.py)::([\w:]+)`")


@pytest.fixture
def page(project_root: Path) -> str:
    return (project_root / PAGE).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [PAGE, "docs/guarantees.md"])
def test_every_named_test_exists(project_root: Path, name: str) -> None:
    text = (project_root / name).read_text(encoding="utf-8")

    missing = [f"{path}::{test}" for path, test in _NAMED.findall(text) if test not in _tests(project_root / path)]

    assert missing == []
    assert "`tests/…" not in text


def test_every_known_failure_has_a_test_or_says_that_it_cannot_happen_yet(page: str) -> None:
    rows = _rows(page, r"[A-Z]{2}-\d+")

    assert set(rows) == {f"{family}-{number}" for family, last in KNOWN.items() for number in range(1, last + 1)}
    assert [id_ for id_, tests in rows.items() if not _NAMED.search(tests) and NOT_BUILT not in tests] == []


def test_every_promise_and_every_crash_window_has_a_test(page: str, project_root: Path) -> None:
    """The pages tell the same promises and the same windows."""
    guarantees = (project_root / "docs/guarantees.md").read_text(encoding="utf-8")

    for first_cell in (r"\d", r"(?:creator|hint|dispatcher|worker|frozen|process|upkeep|Redis)\b[^|]*"):
        rows = _rows(page, first_cell)
        assert rows.keys() == _rows(guarantees, first_cell).keys()
        assert rows
        assert [name for name, tests in rows.items() if not _NAMED.search(tests)] == []


def _rows(text: str, first_cell: str) -> dict[str, str]:
    """The rows of the page's tables whose first cell looks like that, with all that follows it."""
    found = re.findall(rf"^\| ({first_cell}) \| (.*) \|$", text, re.MULTILINE)
    assert len(dict(found)) == len(found), "a row comes twice"
    return dict(found)


@cache
def _tests(path: Path) -> frozenset[str]:
    """The tests of a file, as ``name`` or ``Class::name``."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    names = {node.name for node in tree.body if isinstance(node, functions)}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}::{inner.name}" for inner in node.body if isinstance(inner, functions)}
    return frozenset(names)
