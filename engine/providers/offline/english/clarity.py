"""Whether a question with its answer can be understood by somebody who has not read the text."""

from __future__ import annotations

import re
from typing import Final

from engine.providers.offline.english.words import DETERMINERS, GENERIC, words_of

#: "it" behind one of these mostly stands for the subject of the same card: "so hot that it melts".
_OWN: Final = (
    r"(?<!\bthat )(?<!\bbecause )(?<!\bwhen )(?<!\bwhere )(?<!\bwhile )(?<!\bwhich )(?<!\bas )"
    r"(?<!\bif )(?<!\bwhat )(?<!\bbefore )(?<!\bafter )(?<!\bonce )(?<!\buntil )(?<!\bso )"
)
_IT: Final = rf"{_OWN}\bit\b(?! (?:is|was) \w+ (?:that|to)\b)"
_BEHIND: Final = r"(?:of|in|on|at|by|for|from|to|with|after|before)"
_POINTS: Final = (
    rf"\b(?:this|these|those(?! (?:who|that|which|of))|such(?! (?:as|that)))\b"
    rf"|\b{_BEHIND} that\b(?! (?:of|which))"
)
_IN_QUESTION: Final = re.compile(
    rf"{_IT}|{_POINTS}|\bthe same\b(?!.*\b(?:as|that)\b)|^What (?:is|are|was|were) (?:its|their|his|her)\b",
    re.I,
)
_IN_ANSWER: Final = re.compile(rf"{_IT}|{_POINTS}|^the same\b(?!.*\b(?:as|that)\b)", re.I)
#: In a sentence with a gap the reader has more to go by; these still point out of it.
_IN_GAP: Final = re.compile(
    r"\bthe same\b(?!.*\b(?:as|that|time|moment)\b)|: (?:this|these|it|they)\b"
    r"|^[^,]{3,60},(?: [^,]{3,60},)? (?:it|he|she|they)\b",
    re.I,
)
_NOTHING: Final = words_of(
    "one it them some any all none both such so others other this that these"
)


def points_elsewhere(question: str, answer: str) -> bool:
    """Whether "it", "this" or "the same" in a card stands for something outside it."""
    return bool(_IN_QUESTION.search(question) or _IN_ANSWER.search(answer))


def gap_points_elsewhere(front: str) -> bool:
    """Whether a sentence with a gap leans on the sentence before it."""
    return bool(_IN_GAP.search(front))


def says_nothing(question: str, answer: str) -> bool:
    """Whether an answer is empty: "a site", "one", where no number is asked for."""
    if question.startswith("How "):
        return False
    words = answer.lower().strip(" .").split()
    core = [word for word in words if word not in DETERMINERS and word not in _NOTHING]
    if not core:
        return True
    return len(core) == 1 and len(words) <= 2 and core[0] in GENERIC
