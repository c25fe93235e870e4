"""What a sentence states, without what only ties it to others."""

from __future__ import annotations

import re
from typing import Final

from engine.providers.offline.english.verbs import AMBIGUOUS, FORMS
from engine.providers.offline.english.words import CONNECTIVES, DETERMINERS, PREPOSITIONS, section

_ORDERS: Final = section("orders")
_LONGEST_FIRST: Final = sorted(map(re.escape, CONNECTIVES), key=lambda text: (-len(text), text))
_CONNECTIVE: Final = re.compile(
    rf"^(?:(?:{'|'.join(_LONGEST_FIRST)}),\s+|(?:and|but|so|or|yet)\s+)", re.I
)
_FINAL: Final = re.compile(r"\s*[.!…]+[\"'”’)\]]*$")
_LABEL: Final = re.compile(
    r"^(?:Note|Hint|Tip|Remember|Important|Warning|Fact|Definition|Example|N\.?B\.?)\s?:\s+(?=\S)",
    re.I,
)
_AFTER_ORDER: Final = DETERMINERS | PREPOSITIONS | {"that", "it", "them", "sure", "yourself"}


def statement(text: str) -> str | None:
    """The sentence without an opening connective and its full stop; None for questions and orders."""
    if text.rstrip("\"'”’)]").endswith("?"):
        return None
    bare = _LABEL.sub("", _FINAL.sub("", text))
    if _is_order(bare):
        return None
    stripped = _CONNECTIVE.sub("", bare, count=1)
    if stripped and stripped != bare:
        stripped = stripped[0].upper() + stripped[1:]
    return stripped or None


def _is_order(text: str) -> bool:
    words = text.lower().split(maxsplit=2)
    if len(words) < 2 or words[1] not in _AFTER_ORDER:
        return False
    form = FORMS.get(words[0])
    if form is None or form.tense != "base":
        return False
    return words[0] in _ORDERS or words[0] not in AMBIGUOUS
