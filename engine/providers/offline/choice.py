"""Which facts of a text make the set: sound ones, the important ones, no two alike, from all over the text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from engine.providers.offline.english.words import words_of
from engine.providers.offline.facts import GAP, Fact
from engine.providers.offline.stems import fold, stems

_PAIRS: Final = {"(": ")", "[": "]", "“": "”", "（": "）", "《": "》", "「": "」", "『": "』"}
#: TeX between dollars (a price has a digit behind the second one), assignments, calls.
_FORMULA: Final = re.compile(
    r"\$[^\s$](?:[^$\n]{0,200}[^\s$])?\$(?!\d)|\\[A-Za-z]+\{|\\[(\[]|\w\s?[=^]\s?[\w(_$-]|\w\(\w*\)|[{}]|::|->"
)
#: Weaker facts are worse than none.
_FLOOR: Final = 0.2
#: Facts that are shown where all are weak.
_LAST_RESORT: Final = 3
#: What a second fact of one sentence must reach, and be about.
_SECOND: Final = 1.4
_DEFINITE: Final = frozenset({"year", "date", "number", "count", "person", "definition", "name"})
#: Words of a question that carry nothing of its answer.
_THIN: Final = words_of(
    "the a an of in on at to and or is are was were what who which when where how by for with as"
)


def sound(fact: Fact) -> bool:
    """Whether a fact can be shown: whole, short enough, and not answering itself."""
    front, answer = fact.front.strip(), fact.answer.strip()
    if not front or not answer or len(front) > 700 or len(answer) > 900:
        return False
    if fact.is_cloze and holds_formula(front):
        return False
    if not _has_word(answer) or not _has_word(front.replace(GAP, "")):
        return False
    if not _balanced(answer) or not _balanced(front):
        return False
    return not gives_away(front, answer)


def _has_word(text: str) -> bool:
    return any(char.isalnum() for char in text)


def _balanced(text: str) -> bool:
    if text.count('"') % 2:
        return False
    return all(text.count(opening) == text.count(closing) for opening, closing in _PAIRS.items())


def holds_formula(text: str) -> bool:
    """Whether a text holds a formula or a piece of program, in which a gap cannot be filled by knowing."""
    return bool(_FORMULA.search(text))


def gives_away(front: str, answer: str) -> bool:
    """Whether the answer can be read off the question."""
    shown, wanted = fold(front.replace(GAP, " ")), fold(answer)
    if wanted.isascii():
        if re.search(rf"(?<!\w){re.escape(wanted)}(?!\w)", shown):
            return True
    elif wanted in shown:
        return True
    own = [s for s in stems(answer) if s not in _THIN]
    known = set(stems(front.replace(GAP, " ")))
    return bool(own) and all(s in known for s in own)


def key_of(text: str) -> str:
    """One form for texts that ask or say the same."""
    return " ".join(s for s in stems(text) if s not in _THIN) or fold(text)


def best_first(facts: Iterable[Fact]) -> Iterator[Fact]:
    """The sound facts, the best first; facts of one weight in the order of the text."""
    ranked = sorted(facts, key=lambda fact: (-fact.weight, fact.sentence.order, fact.front))
    # Judged one by one: of a long text only the first few hundred are ever looked at.
    return (fact for fact in ranked if sound(fact))


def choose(facts: Iterable[Fact], most: int) -> list[Fact]:
    """Up to ``most`` facts, the most important first: one of each sentence, then some second ones."""
    given = list(facts)
    worthy = [fact for fact in given if fact.weight >= _FLOOR]
    choice = _Choice(most)
    choice.take(best_first(worthy), per_sentence=1)
    if not choice.facts:
        choice.take(islice(best_first(given), _LAST_RESORT), per_sentence=1)
    # A second fact of a sentence only where it is a good one, and about something definite.
    second = [fact for fact in worthy if fact.weight >= _SECOND and fact.kind in _DEFINITE]
    choice.take(best_first(second), per_sentence=2)
    return sorted(choice.facts, key=lambda fact: (-fact.weight, fact.sentence.order))


class _Choice:
    """The facts chosen so far, and what they ask and answer."""

    def __init__(self, most: int) -> None:
        self.facts: list[Fact] = []
        self._most = most
        self._fronts: set[str] = set()
        self._answers: set[str] = set()
        self._used: Counter[int] = Counter()

    def take(self, ranked: Iterable[Fact], *, per_sentence: int) -> None:
        """Add facts in their order until there are enough."""
        if len(self.facts) >= self._most:
            return
        for fact in ranked:
            if self._used[fact.sentence.order] < per_sentence and self._is_new(fact):
                self.facts.append(fact)
                self._used[fact.sentence.order] += 1
                if len(self.facts) >= self._most:
                    return

    def _is_new(self, fact: Fact) -> bool:
        front, answer = key_of(fact.front), key_of(fact.answer)
        if front in self._fronts or answer in self._answers:
            return False
        self._fronts.add(front)
        self._answers.add(answer)
        return True
