"""Faults at chosen statements of an engine: the database itself refuses, or a rival comes in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from outbox.base import later


@contextmanager
def _kept_writes(look: Callable[[str], str]) -> Iterator[None]:
    """Let `look` see each write that was kept for later, when it is sent, and say what is sent for it."""
    really = later._run

    def run(connection: Any, writes: list[Any]) -> None:
        really(connection, [write._replace(text=look(write.text)) for write in writes])

    later._run = run
    try:
        yield
    finally:
        later._run = really


@contextmanager
def refusing(engine: sa.Engine, fragment: str, *, times: int = 1) -> Iterator[list[str]]:
    """The next `times` statements with `fragment` are sent as nonsense, so that the database refuses them.

    Yields the statements that were refused.
    """
    refused: list[str] = []

    def spoilt(statement: str) -> str:
        if fragment in statement and len(refused) < times:
            refused.append(statement)
            return "SELEKT nonsense"
        return statement

    def spoil(_conn: Any, _cursor: Any, statement: str, parameters: Any, *_rest: Any) -> tuple[str, Any]:
        sent = spoilt(statement)
        return sent, parameters if sent == statement else ()

    sa.event.listen(engine, "before_cursor_execute", spoil, retval=True)
    try:
        with _kept_writes(spoilt):
            yield refused
    finally:
        sa.event.remove(engine, "before_cursor_execute", spoil)


@contextmanager
def statements(engine: sa.Engine) -> Iterator[list[str]]:
    """The statements that are executed meanwhile."""
    seen: list[str] = []

    def note(_conn: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        seen.append(statement)

    def noted(statement: str) -> str:
        seen.append(statement)
        return statement

    sa.event.listen(engine, "before_cursor_execute", note)
    try:
        with _kept_writes(noted):
            yield seen
    finally:
        sa.event.remove(engine, "before_cursor_execute", note)


@contextmanager
def after_statement(engine: sa.Engine, fragment: str, act: Callable[[], object]) -> Iterator[None]:
    """Do `act` once, right after the first statement with `fragment`, inside its transaction."""
    done: list[bool] = []

    def maybe(_conn: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        if fragment in statement and not done:
            done.append(True)
            act()

    sa.event.listen(engine, "after_cursor_execute", maybe)
    try:
        yield
    finally:
        sa.event.remove(engine, "after_cursor_execute", maybe)
    assert done, f"no statement held {fragment!r}"
