"""Logging of a daemon: the one place that decides how a log line looks and what it may hold."""

from __future__ import annotations

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from typing import Any, Final, Literal, TextIO

from registry.errors import AiJobsError

Format = Literal["auto", "console", "json"]

#: Libraries whose lines may hold requests and answers of models, or addresses with passwords (promise 7).
_TALKATIVE: Final = ("openai", "httpx", "httpx2", "httpcore", "sqlalchemy", "asyncio", "alembic", "urllib3")

_COLORS: Final = {logging.WARNING: "\x1b[33m", logging.ERROR: "\x1b[31m", logging.CRITICAL: "\x1b[31m"}
_DIM, _PLAIN = "\x1b[2m", "\x1b[0m"


def set_up(
    *, format: Format = "auto", level: int = logging.INFO, color: bool = True, stream: TextIO | None = None  # noqa: A002
) -> None:
    """Send every log line of this process to ``stream`` (standard error), from ``level`` on.

    ``auto`` is readable lines on a terminal and JSON lines elsewhere. Libraries that would print what models
    are asked and answer stay at warnings, whatever the level.
    """
    stream = stream or sys.stderr
    terminal = stream.isatty()
    chosen = format if format != "auto" else ("console" if terminal else "json")
    handler = logging.StreamHandler(stream)
    handler.setFormatter(ConsoleFormatter(color=color and terminal) if chosen == "console" else JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(max(level, logging.WARNING))


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, event, and the fields of a fact."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": _time(record).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info and record.exc_info[1] is not None:
            line["error"] = described(record.exc_info[1])
            line["places"] = places(record.exc_info[1])
        return json.dumps(line, ensure_ascii=False, default=str)


class ConsoleFormatter(logging.Formatter):
    """``12:00:00.123 info  job.succeeded  job_id=... run_ms=812``"""

    def __init__(self, *, color: bool) -> None:
        super().__init__()
        self._color = color

    def format(self, record: logging.LogRecord) -> str:
        level = f"{record.levelname.lower():<8}"
        fields = "".join(f"  {key}={value}" for key, value in getattr(record, "fields", {}).items())
        clock = f"{_time(record):%H:%M:%S}.{int(record.msecs):03d}"
        if self._color:
            level = f"{_COLORS.get(record.levelno, '')}{level}{_PLAIN}"
            clock, fields = f"{_DIM}{clock}{_PLAIN}", f"{_DIM}{fields}{_PLAIN}" if fields else ""
        lines = [f"{clock} {level} {_one_line(record.getMessage())}{fields}"]
        if record.exc_info and record.exc_info[1] is not None:
            lines += [f"    {described(record.exc_info[1])}", *(f"      {p}" for p in places(record.exc_info[1]))]
        return "\n".join(lines)


def described(error: BaseException) -> str:
    """An error by its kind; by its text only where the text is ours, which holds no input or output."""
    name = type(error).__name__
    return f"{name} [{error.code}]: {_one_line(str(error))}" if isinstance(error, AiJobsError) else name


def places(error: BaseException) -> list[str]:
    """Where an error was raised, innermost last; without source lines and without values."""
    frames = traceback.extract_tb(error.__traceback__)
    return [f"{frame.filename}:{frame.lineno} in {frame.name}" for frame in frames[-12:]]


def _time(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, UTC)


def _one_line(text: str) -> str:
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
