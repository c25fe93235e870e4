"""What every question is made with."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from engine.providers.offline.english.clauses import Clause
from engine.providers.offline.english.vocabulary import Vocabulary
from engine.providers.offline.facts import Kind

_TAIL: Final = re.compile(
    r"(?:,\s(?:which|who|where|whose|and|but|although|though|while|whereas|so|making|including|with"
    r"|such as|or|because|since|allowing|causing|leading|resulting|usually|often|especially"
    r"|particularly|as well as|then)\b|;|\s[–—]\s|\s\(|:\s)"
)


@dataclass(frozen=True, slots=True)
class Question:
    """A question with its answer, before it is judged."""

    text: str
    answer: str
    kind: Kind
    weight: float


@dataclass(frozen=True, slots=True)
class Asking:
    """One clause about to be asked about; ``subject`` is written as it reads inside a question."""

    clause: Clause
    subject: str
    vocabulary: Vocabulary

    def question(self, asked: str, answer: str, kind: Kind, weight: float) -> Question:
        """A question that says as much as the sentence: its opening comes first."""
        lead = self.clause.lead
        if lead:
            asked = f"{lead}, {asked[0].lower()}{asked[1:]}"
        return Question(f"{asked}?", capitalized(answer.rstrip(" ,;:")), kind, weight)


def cut_tail(text: str) -> str:
    """An answer without the clause that hangs on behind it, unless too little would be left."""
    tail = next((found for found in _TAIL.finditer(text) if not _ends_list(text, found)), None)
    short = (text[: tail.start()] if tail else text).rstrip(" ,;:")
    enough = len(short.split()) >= 2 or short[:1].isupper() or len(text.split()) < 4
    return short if short and enough else text.rstrip(" ,;:")


def _ends_list(text: str, tail: re.Match[str]) -> bool:
    """Whether ", and" only comes before the last of several things: "a, b, and c"."""
    return tail.group().startswith((", and", ", or")) and "," in text[: tail.start()]


def capitalized(text: str) -> str:
    """With a capital letter in front."""
    return text[:1].upper() + text[1:]


def joined(*parts: str) -> str:
    """The parts that are not empty, with a space between."""
    return " ".join(part for part in parts if part)
