"""What a sentence states, without what only ties it to others."""

from __future__ import annotations

import re
from typing import Final

from engine.providers.offline.english.tokens import is_adjective
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
_ANY_LABEL: Final = re.compile(r"^(\w+):\s+(?=\S)")
#: "To learn more, see ...", "For all the basics, head over to ..."
_LATE_ORDER: Final = re.compile(
    r"^(?:To|For|If|When|Before|After)\s[^,]{3,100},\s(?:please\s|just\s|simply\s)?"
    r"(?:see|head|use|check|visit|read|try|go|click|run|refer|make|consult|follow|look|call)\s"
)
_AFTER_ORDER: Final = DETERMINERS | PREPOSITIONS | {"that", "it", "them", "sure", "yourself"}


def statement(text: str) -> str | None:
    """The sentence without an opening connective and its full stop; None for questions and orders."""
    if text.rstrip("\"'”’)]").endswith("?"):
        return None
    bare = _without_label(_FINAL.sub("", text))
    if _is_order(bare) or bare.endswith(":"):
        return None
    stripped = _CONNECTIVE.sub("", bare, count=1)
    if stripped and stripped != bare:
        stripped = stripped[0].upper() + stripped[1:]
    return stripped or None


def _without_label(text: str) -> str:
    """Without "Note:" or "Simple:" in front."""
    short = _LABEL.sub("", text)
    label = _ANY_LABEL.match(short)
    return short[label.end() :] if label and is_adjective(label.group(1).lower()) else short


def _is_order(text: str) -> bool:
    words = text.lower().split(maxsplit=2)
    if words[:1] == ["please"] or _LATE_ORDER.search(text):
        return True
    if len(words) < 2 or words[1] not in _AFTER_ORDER:
        return False
    form = FORMS.get(words[0])
    if form is None or form.tense != "base":
        return False
    return words[0] in _ORDERS or words[0] not in AMBIGUOUS
