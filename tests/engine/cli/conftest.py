"""The command line as a user meets it: in a folder of its own, with a clean environment.

    aijobs("jobs", "list", "--json") -> Done(code, out, err)      in this process, both streams apart
    program("worker", env={...}) -> Child                         a real process in the same folder
"""

from __future__ import annotations

import io
import json
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from engine.cli.main import main
from tests.support.databases import Databases
from tests.support.migrated import MIGRATED, migrate
from tests.support.processes import Child, Children
from tests.support.worlds import make_world, quick_looks, tables_url, world

__all__ = ["make_world", "quick_looks", "tables_url", "world"]

_PROGRAM = "from engine.cli.process import run; run()"

Run = Callable[..., "Done"]
Start = Callable[..., Child]


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output as the one JSON document that it is."""
        return json.loads(self.out)

    @property
    def error(self) -> dict[str, Any]:
        """The error that `--json` prints on standard error."""
        found: dict[str, Any] = json.loads(self.err)["error"]
        return found


@contextmanager
def _logging_kept() -> Iterator[None]:
    """A daemon sets the logging of its process up; the next test is another process."""
    root = logging.getLogger()
    before = (root.handlers[:], root.level)
    try:
        yield
    finally:
        root.handlers[:], root.level = before


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that the test's commands are started in."""
    for name in list(os.environ):
        if name.startswith("AIJOBS_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


@pytest.fixture
def aijobs(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Function (*arguments, stdin=b"") -> `Done`: one command in this process."""

    def run(*arguments: object, stdin: bytes = b"") -> Done:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
        capsys.readouterr()
        with _logging_kept():
            code = main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return Done(code, out, err)

    return run


@pytest.fixture
def program(folder: Path, children: Children) -> Start:
    """Function (*arguments, env={...}) -> `Child`: one command as a process."""

    def start(*arguments: object, env: Mapping[str, str] | None = None) -> Child:
        words = [sys.executable, "-X", "faulthandler", "-c", _PROGRAM, *map(str, arguments)]
        return children.command(words, env=env, cwd=folder)

    return start


@pytest.fixture
def database(
    folder: Path, databases: Callable[[str], Databases], monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """URL of a SQLite database with all tables, which the test's commands in this process use."""
    pool = databases("sqlite")
    url = pool.prepared(MIGRATED, migrate)
    monkeypatch.setenv("AIJOBS_DATABASE_URL", url)
    yield url
    pool.give_back(MIGRATED, url)
