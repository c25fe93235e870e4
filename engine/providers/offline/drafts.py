"""Facts turned into questions with options."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from engine.providers.offline.choice import gives_away, key_of
from engine.providers.offline.facts import Fact, Kind
from engine.providers.offline.options import Options, seed

_ARTICLE: Final = re.compile(r"^(?:The|An?) (?=\w)")
_LINKS: Final = ("of", "to", "for", "by", "from", "into", "in")
_FRONT_ZH: Final = re.compile(r"^.*?(?=什么|哪里|为什么|哪些)")
#: Characters a description has at most, and words a short answer has.
_LONGEST: Final = 300
_SHORT: Final = 5


@dataclass(frozen=True, slots=True)
class Wording:
    """How a question is put in one language; each has one place to fill."""

    fill: str
    which: str
    which_person: str
    #: Whether a description begins with a small letter inside a question.
    small: bool


@dataclass(frozen=True, slots=True)
class Draft:
    """A question whose options are found."""

    fact: Fact
    stem: str
    answer: str
    wrong: list[str]

    def as_fact(self) -> Fact:
        """The draft as a fact to choose by; with few options it weighs less."""
        weight = self.fact.weight - 0.5 * (3 - len(self.wrong))
        return replace(self.fact, front=self.stem, answer=self.answer, weight=weight)


def draft(fact: Fact, facts: Sequence[Fact], options: Options, wording: Wording) -> Draft | None:
    """A question for a fact; None where nothing of its kind could stand beside the answer."""
    if fact.kind in ("phrase", "whole"):
        wrong = _other_phrases(fact, facts)
        return Draft(fact, fact.front, fact.answer, wrong) if len(wrong) >= 2 else None
    put = _definition(fact, wording) if fact.kind == "definition" else _plain(fact, wording)
    if put is None:
        return None
    stem, answer, kind = put
    answer = _ARTICLE.sub("", answer)
    wrong = options.wrong(answer, kind, stem, fact.sentence.text)
    return Draft(fact, stem, answer, wrong) if wrong else None


def kind_of(fact: Fact) -> Kind:
    """What a definition defines: a person, a thing with a name, or a term."""
    if fact.front.startswith("Who ") or fact.front.endswith("是谁？"):
        return "person"
    named = " " in fact.about and all(word[:1].isupper() for word in fact.about.split())
    return "name" if named else "term"


def _plain(fact: Fact, wording: Wording) -> tuple[str, str, Kind]:
    stem = wording.fill.format(fact.front) if fact.is_cloze else fact.front
    return stem, fact.answer, fact.kind


def _definition(fact: Fact, wording: Wording) -> tuple[str, str, Kind] | None:
    if " of " in fact.about:
        # "What is the opposite of inflation?": the answer is the term.
        answer = fact.answer.partition(",")[0]
        return (fact.front, answer, "term") if len(answer.split()) <= _SHORT else None
    if not fact.about or gives_away(fact.answer, fact.about) or len(fact.answer) > _LONGEST:
        return None
    kind = kind_of(fact)
    said = fact.answer[0].lower() + fact.answer[1:] if wording.small else fact.answer
    form = wording.which_person if kind == "person" else wording.which
    return form.format(said), fact.about, kind


def _other_phrases(fact: Fact, facts: Sequence[Fact]) -> list[str]:
    """Answers to questions of the same form: where, what for, why."""
    form = _form(fact)
    found: dict[str, str] = {}
    for other in facts:
        same = other.kind == fact.kind and not other.is_cloze and _form(other) == form
        elsewhere = other.sentence.order != fact.sentence.order
        if same and elsewhere and not gives_away(fact.front, other.answer):
            found.setdefault(key_of(other.answer), other.answer)
    found.pop(key_of(fact.answer), None)
    return sorted(found.values(), key=lambda text: seed(fact.front, text))[:3]


def _form(fact: Fact) -> tuple[str, str]:
    words = fact.front.rstrip("?").split()
    if len(words) > 1:
        return words[0], words[-1] if words[-1] in _LINKS else ""
    return _FRONT_ZH.sub("", fact.front), ""
