"""Durations, times, ids, targets and JSON as people write them on a command line."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from engine.cli.errors import UsageMistake

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)?", re.ASCII)
#: A longer one is a slip of the finger.
_LONGEST_MS = 366 * _UNITS_MS["d"]
_OBJECT = 'it must be a JSON object such as {"value": 1}'


def duration_ms(text: str, *, name: str = "duration") -> int:
    """``500ms``, ``30s``, ``5m``, ``2h`` or ``1d`` as ms; without a unit only 0 is one."""
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise UsageMistake(f"{name}: {text!r} is not a duration", fix="write it like 500ms, 30s, 5m or 2h")
    number, unit = float(found[1]), found[2]
    if unit is None and number:
        fix = f"{found[1]}s for seconds, {found[1]}m for minutes"
        raise UsageMistake(f"{name}: {text!r} has no unit", fix=fix)
    ms = round(number * _UNITS_MS[unit or "s"])
    if ms > _LONGEST_MS:
        raise UsageMistake(f"{name}: {text!r} is longer than a year")
    return ms


def instant(text: str, *, now: datetime, name: str = "time") -> datetime:
    """An ISO 8601 time with its offset, or one relative to ``now`` (the database's): ``-1h``, ``+30s``."""
    text = text.strip()
    if text[:1] in ("-", "+"):
        shift = timedelta(milliseconds=duration_ms(text[1:], name=name))
        return now - shift if text[0] == "-" else now + shift
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        fix = "write it like 2026-01-31T09:00:00Z, or -1h for an hour ago"
        raise UsageMistake(f"{name}: {text!r} is not a time", fix=fix) from None
    if found.tzinfo is None:
        fix = f"add Z for UTC or an offset: {text}Z, {text}+02:00"
        raise UsageMistake(f"{name}: {text!r} has no time zone", fix=fix)
    return found.astimezone(UTC)


def identity(text: str, *, name: str = "job id") -> UUID:
    """A UUID, with or without dashes."""
    try:
        return UUID(text.strip())
    except ValueError:
        fix = "ids are 32 hexadecimal digits, with or without dashes"
        raise UsageMistake(f"{text!r} is not a {name}", fix=fix) from None


def target(text: str) -> tuple[str, str]:
    """``type:id`` as a pair; the id may hold further colons."""
    kind, colon, key = text.partition(":")
    if not (kind and colon and key):
        raise UsageMistake(f"--target: {text!r} is not TYPE:ID", fix="write it like document:8812")
    return kind, key


def json_object(text: str, *, name: str) -> dict[str, Any]:
    """A JSON object; says where the text stops being one, and never repeats the text."""
    from outbox.base.canonical import parse
    from outbox.base.errors import NotCanonicalError

    try:
        value = parse(text)
    except NotCanonicalError as error:
        raise UsageMistake(f"{name}: {_where(text) or error}", fix=_OBJECT) from None
    if not isinstance(value, dict):
        kind = {list: "an array", str: "a text", bool: "a boolean", type(None): "null"}.get(type(value), "a number")
        raise UsageMistake(f"{name}: is {kind}", fix=_OBJECT)
    return value


def _where(text: str) -> str | None:
    """The place where ``text`` stops being JSON, for a person to look at."""
    import json

    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return f"not JSON at line {error.lineno}, column {error.colno}: {error.msg}"
    except (ValueError, RecursionError):
        return None
    return None
