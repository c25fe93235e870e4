"""Data on standard output, talk on standard error.

Data is a table on a terminal, tab-separated lines in a pipe, one JSON document with ``--json``. Texts of
users and models are printed without control characters, so that none of them can steer a terminal.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console

    from engine.cli.failures import Failure

#: The code of a failure that is nothing but the help of a noun without its verb.
HELP = "HELP"

_CONTROL = re.compile(r"[\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def clean(text: str) -> str:
    """``text`` without what could steer a terminal; line breaks and tabs stay."""
    return "".join(char if char.isprintable() or char in "\n\t" else "\N{REPLACEMENT CHARACTER}" for char in text)


def one_line(value: Any) -> str:
    """Any value in one cell or line."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y-%m-%dT%H:%M:%S}Z"
    return clean(str(value)).replace("\n", " ").replace("\t", " ")


class Bar:
    """How far long work has come."""

    def __init__(self, progress: Any, task: Any) -> None:
        self._progress = progress
        self._task = task

    def to(self, done: int) -> None:
        """So many of the whole are done."""
        if self._progress is not None:
            self._progress.update(self._task, completed=done)


class Output:
    """Prints for one command."""

    def __init__(
        self, *, json: bool = False, color: bool = True, quiet: bool = False,
        stdout: TextIO | None = None, stderr: TextIO | None = None,
    ) -> None:  # fmt: skip
        self.json = json
        self.quiet = quiet
        self._color = color
        self._stdout = stdout or sys.stdout
        self._stderr = stderr or sys.stderr

    @property
    def to_terminal(self) -> bool:
        """Whether data goes to a person's terminal."""
        return self._stdout.isatty()

    @property
    def talks_to_terminal(self) -> bool:
        """Whether talk, and so a progress bar, goes to a person's terminal."""
        return self._stderr.isatty()

    @property
    def can_ask(self) -> bool:
        """Whether there is a person to answer a question."""
        return sys.stdin.isatty() and self.talks_to_terminal

    # -------------------------------------------------------------- data

    def show(self, document: Any, text: Callable[[], None]) -> None:
        """Print ``document`` with ``--json``, else let ``text`` print for people."""
        if self.json:
            self.document(document)
        else:
            text()

    def document(self, document: Any) -> None:
        """Print one JSON document."""
        self._print_json(document, indent=2 if self.to_terminal else None)

    def record(self, document: Any) -> None:
        """Print one JSON document on one line at once: one of many that come over time."""
        self._print_json(document, indent=None)
        self._stdout.flush()

    def _print_json(self, document: Any, *, indent: int | None) -> None:
        unicode = "utf" in (self._stdout.encoding or "").lower()
        text = json.dumps(document, ensure_ascii=not unicode, indent=indent, default=str)
        # JSON escapes the lower control characters by itself
        print(_CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text), file=self._stdout)

    def line(self, text: str = "", *, style: str | None = None) -> None:
        """Print a line of data; a terminal shows it in ``style``."""
        if style and self.to_terminal:
            from rich.text import Text

            self._console(self._stdout).print(Text(clean(text), style), soft_wrap=True)
        else:
            print(clean(text), file=self._stdout)

    def wrapped(self, text: str, *, indent: int = 0) -> None:
        """Print running text; a terminal folds it at its width."""
        if not self.to_terminal:
            print(" " * indent + clean(text), file=self._stdout)
            return
        from rich.padding import Padding
        from rich.text import Text

        self._console(self._stdout).print(Padding(Text(clean(text)), (0, 0, 0, indent)))

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Print rows under column names."""
        cells = [[one_line(value) for value in row] for row in rows]
        if not self.to_terminal:
            for row in [columns, *cells]:
                print("\t".join(row), file=self._stdout)
            return
        from engine.cli.tables import lines

        console = self._console(self._stdout)
        for line in lines(columns, cells, console.width):
            console.print(line, soft_wrap=True)

    def fields(self, values: Mapping[str, Any]) -> None:
        """Print names and values, one a line; None is left out."""
        shown = {name: one_line(value) for name, value in values.items() if value is not None}
        width = max(map(len, shown), default=0)
        for name, value in shown.items():
            self.line(f"{name:<{width}}  {value}" if self.to_terminal else f"{name}\t{value}")

    # -------------------------------------------------------------- talk

    def say(self, text: str) -> None:
        """Print a line of talk, unless ``-q``."""
        if not self.quiet:
            self._talk(text, "dim")

    def warn(self, text: str) -> None:
        """Print a warning, also with ``-q``."""
        self._talk(f"warning: {text}", "yellow")

    def failure(self, failure: Failure) -> None:
        """Print what went wrong in one line, or as a JSON document with ``--json``; both on standard error."""
        if self.json:
            told = {"code": failure.code, "message": failure.message, "fix": failure.fix, "exit": failure.exit_code}
            print(json.dumps({"error": told}), file=self._stderr)
            return
        if failure.code == HELP:
            self._talk(failure.message, "")
            return
        fix = f"; {failure.fix}" if failure.fix else ""
        self._talk(f"aijobs: {one_line(failure.message).rstrip('.')}{fix}", "red")

    def _talk(self, text: str, style: str) -> None:
        if self.talks_to_terminal:
            from rich.text import Text

            self._console(self._stderr).print(Text(clean(text), style), soft_wrap=True)
        else:
            print(clean(text), file=self._stderr, flush=True)

    @contextmanager
    def bar(self, what: str, total: int) -> Iterator[Bar]:
        """A bar for long work on a terminal, nothing elsewhere."""
        if self.quiet or not self.talks_to_terminal or total < 2:
            yield Bar(None, None)
            return
        from rich.progress import Progress

        with Progress(console=self.talk_console(), transient=True) as progress:
            yield Bar(progress, progress.add_task(what, total=total))

    def talk_console(self) -> Console:
        """The console that progress is drawn on."""
        return self._console(self._stderr)

    def _console(self, stream: TextIO) -> Console:
        from rich.console import Console

        return Console(file=stream, no_color=not self._color or None, highlight=False, markup=False, emoji=False)
