"""What the words of one text are to it: how frequent, how prominent, proper or common."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from engine.providers.offline.english.tokens import Token, is_content
from engine.providers.offline.english.words import (
    FIRST_NAMES,
    GENERIC,
    HUMAN_VERBS,
    PERSON_NOUNS,
    STOP_WORDS,
    section,
)
from engine.providers.offline.sentences import Sentence
from engine.providers.offline.stems import stem, stems

_NAMED = r"(?P<name>[A-Z][\w.'’-]+(?: (?:de|von|van|der|la|bin|al))?(?: [A-Z][\w.'’-]+){1,3})"
_ACTS = re.compile(rf"(?:^|[,.;] ){_NAMED} (?:first |later |also |then )?(?P<verb>[a-z]+)\b")
_IS_SOMEBODY = re.compile(
    rf"{_NAMED}(?: \([^()]{{3,60}}\))?,? (?:(?:was|is) )?(?:an?|the) (?P<what>[^,.;]{{3,60}})"
)
_TITLES = section("titles")


class Vocabulary:
    """Counts over a whole text, asked about single words and phrases."""

    def __init__(
        self, sentences: Sequence[Sentence], tokens: Sequence[Sequence[Token]], title: str = ""
    ) -> None:
        """Take the sentences with their tokens, and the text's title."""
        self._lower: Counter[str] = Counter()
        self._capital: Counter[str] = Counter()
        self._stems: Counter[str] = Counter()
        for line in tokens:
            self._count(line)
        self._most = max(self._stems.values(), default=1)
        headings = {sentence.heading for sentence in sentences}
        self._prominent = frozenset(self._stems_of([title, *headings]))
        self._people = frozenset(self._find_people(sentence.text for sentence in sentences))
        self._bold = frozenset(
            self._stems_of(term for sentence in sentences for term in sentence.bold)
        )

    def _count(self, line: Sequence[Token]) -> None:
        for at, token in enumerate(line):
            if not token.is_word:
                continue
            if not token.is_capital:
                self._lower[token.low] += 1
            elif at > 0 and line[at - 1].text not in ("“", '"', ":", "(", "."):
                self._capital[token.low] += 1
            if is_content(token):
                self._stems[stem(token.low)] += 1

    @staticmethod
    def _find_people(texts: Iterable[str]) -> Iterable[str]:
        """Surnames of those who do what only people do, or are called something that only people are."""
        for text in texts:
            for match in _ACTS.finditer(text):
                if (
                    match["verb"] in HUMAN_VERBS
                    or " was born" in text[match.start() : match.end() + 8]
                ):
                    yield match["name"].split()[-1]
            for match in _IS_SOMEBODY.finditer(text):
                if any(
                    is_person_noun(word)
                    for word in re.split(r"\b(?:who|that|of|in)\b", match["what"])[0].split()
                ):
                    yield match["name"].split()[-1]

    @staticmethod
    def _stems_of(texts: Iterable[str]) -> list[str]:
        return [s for text in texts for s in stems(text) if s not in STOP_WORDS and len(s) > 2]

    def is_proper(self, token: Token, at: int) -> bool:
        """Whether a capitalised token is a name rather than the first word of its sentence."""
        word = token.low
        if not token.is_capital or word in STOP_WORDS:
            return False
        if len(token.text) > 1 and token.text.isupper():
            return True
        if at > 0:
            return self._lower[word] <= self._capital[word]
        return self._capital[word] > self._lower[word] or (
            word in FIRST_NAMES and not self._lower[word]
        )

    def seen_lower(self, word: str) -> bool:
        """Whether the text writes ``word`` in lower case somewhere."""
        return self._lower[word] > 0

    def importance(self, phrase: str) -> float:
        """How much the text is about ``phrase``: 0 for a word in passing, about 3 for its subject."""
        own = [s for s in stems(phrase) if s not in STOP_WORDS]
        if not own:
            return 0.0
        frequency = sum(math.log2(1 + self._stems[s]) for s in own) / (
            len(own) * math.log2(2 + self._most)
        )
        prominent = sum(s in self._prominent for s in own) / len(own)
        bold = sum(s in self._bold for s in own) / len(own)
        generic = sum(word in GENERIC for word in phrase.lower().split()) / max(
            1, len(phrase.split())
        )
        return frequency + 0.6 * prominent + 1.2 * bold - 0.8 * generic

    def is_person(self, words: Sequence[str], around: str = "") -> bool:
        """Whether a name is a person's, by its first name or a title, or by what the sentence calls it."""
        low = [word.lower().strip(".") for word in words]
        if not low or len(low) > 5 or "of" in low[:1]:
            return False
        if low[0] in _TITLES or low[0] in FIRST_NAMES or words[-1] in self._people:
            return True
        if len(words) >= 2 and all(len(word) <= 2 and word.endswith(".") for word in words[:-1]):
            return True
        return bool(around) and any(map(is_person_noun, around.lower().split()[:8]))


def is_person_noun(word: str) -> bool:
    """Whether a word says what somebody is."""
    word = word.lower().strip(",.")
    if word.endswith(("ologist", "ician", "grapher", "onomer", "urgeon")):
        return True
    return word in PERSON_NOUNS or (
        word.endswith(("man", "woman"))
        and word not in ("human", "german", "roman", "ottoman", "norman")
    )
