"""The name somebody meant, when the one they wrote is a slip."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

#: A longer word is no slip, and comparing it would take its time.
_LONGEST: Final = 100


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``"; did you mean 'quiz_generation'?"`` where one of ``known`` is near to ``word``, else nothing."""
    near = nearest(word, known)
    return "" if near is None else f"; did you mean {near!r}?"


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The one of ``known`` that ``word`` is most likely a slip for; upper and lower case count as one."""
    if len(word) > _LONGEST:
        return None
    by_lower = {name.lower(): name for name in known}
    found = difflib.get_close_matches(word.lower(), by_lower, n=1)
    return by_lower[found[0]] if found else None
