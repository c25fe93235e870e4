"""What "it", "he", "she" and "they" stand for, where the sentence before leaves no doubt."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from engine.providers.offline.english.clauses import Clause
from engine.providers.offline.english.subjects import is_vague
from engine.providers.offline.english.vocabulary import Vocabulary
from engine.providers.offline.english.words import DETERMINERS, words_of

#: Not "It is known that ...", where "it" stands for nothing.
_PRONOUN: Final = re.compile(
    r"^(It|He|She|They|Its|His|Her|Their)(?=\s)(?!\s(?:is|was)\s(?:\w+\s){1,3}(?:that|to|for)\s)"
)
_POSSESSIVE: Final = words_of("its his her their")
_SEVERAL: Final = words_of("and or in for with from")
#: Words a subject has at most to be pointed back to.
_LONGEST: Final = 6

Number = Literal["person", "thing", "things"]
_POINTS_TO: Final[dict[str, Number]] = {
    "it": "thing",
    "its": "thing",
    "he": "person",
    "she": "person",
    "his": "person",
    "her": "person",
    "they": "things",
    "their": "things",
}


@dataclass(frozen=True, slots=True)
class Antecedent:
    """The subject of the last sentence of a paragraph, which the next one may point back to."""

    subject: str
    number: Number

    @classmethod
    def of(cls, clause: Clause, vocabulary: Vocabulary) -> Antecedent | None:
        """What a clause leaves to point back to; None where its own subject is unclear."""
        tokens = clause.tokens[clause.first : clause.last]
        unclear = is_vague(clause, vocabulary) or any(token.low in _SEVERAL for token in tokens)
        if unclear or len(tokens) > _LONGEST:
            return None
        return cls(clause.subject, _number(clause, vocabulary))

    def resolve(self, text: str) -> str | None:
        """``text`` with the subject in place of its first word; None where that points elsewhere."""
        match = _PRONOUN.match(text)
        word = match.group(1).lower() if match else ""
        if match is None or _POINTS_TO[word] != self.number:
            return None
        owner = self.subject
        if word in _POSSESSIVE:
            owner += "'" if owner.endswith("s") else "'s"
        return f"{owner[0].upper()}{owner[1:]}{text[match.end() :]}"


def _number(clause: Clause, vocabulary: Vocabulary) -> Number:
    first, last = clause.tokens[clause.first], clause.tokens[clause.last - 1]
    named = first.is_capital and first.low not in DETERMINERS
    if vocabulary.is_person(clause.subject_words, clause.part(clause.verb + 1) if named else ""):
        return "person"
    if clause.verb_word in ("are", "were", "have", "do"):
        return "things"
    plural = last.low.endswith("s") and not last.low.endswith(("ss", "us", "is", "'s"))
    return "things" if plural and not last.is_capital else "thing"
