"""The frame of a simple English sentence: what comes first, who or what it is about, and the verb."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from engine.providers.offline.english.names import name_end
from engine.providers.offline.english.tokens import (
    Token,
    is_adverb,
    is_verb,
    noun_phrase,
)
from engine.providers.offline.english.verbs import FORMS
from engine.providers.offline.english.vocabulary import Vocabulary
from engine.providers.offline.english.words import (
    AUXILIARIES,
    DETERMINERS,
    PERSONAL,
    PREPOSITIONS,
    section,
    words_of,
)

_CHAIN: Final = words_of(
    "of in for between from on to and within among at with across through into by without near under over"
)
_LIGHT: Final = section("light_adverbs")
#: Tokens a subject has at most; a longer one makes no question that anybody can read.
_LONGEST: Final = 11
#: Tokens that an opening before the subject, or an apposition behind it, has at most.
_OPENING: Final = 14
_ASIDE: Final = 12


@dataclass(frozen=True, slots=True)
class Clause:
    """A sentence of the form [lead,] subject [aside] verb rest. Numbers are places of tokens."""

    text: str
    tokens: list[Token]
    lead: str
    first: int
    last: int
    verb: int

    def part(self, start: int, end: int | None = None) -> str:
        """The text from token ``start`` up to token ``end``."""
        tokens = self.tokens[start:end]
        return self.text[tokens[0].start : tokens[-1].end] if tokens else ""

    def word(self, at: int) -> str:
        """A token in lower case; empty behind the end."""
        return self.tokens[at].low if at < len(self.tokens) else ""

    @property
    def subject(self) -> str:
        """The subject as it is written."""
        return self.part(self.first, self.last)

    @property
    def subject_words(self) -> list[str]:
        """The words of the subject."""
        return [token.text for token in self.tokens[self.first : self.last]]

    @property
    def verb_word(self) -> str:
        """The verb in lower case."""
        return self.word(self.verb)

    def after_verb(self) -> int:
        """The first token behind the verb that is no adverb."""
        return skip_adverbs(self.tokens, self.verb + 1)


def skip_adverbs(tokens: list[Token], at: int) -> int:
    """The first token from ``at`` on that is no adverb."""
    while at < len(tokens) and (is_adverb(tokens[at].low) or tokens[at].low in _LIGHT):
        at += 1
    return at


def parse(text: str, tokens: list[Token], vocabulary: Vocabulary) -> Clause | None:
    """The frame of a statement; None where it is not this simple."""
    if len(tokens) < 3:
        return None
    lead_end, first = _lead(tokens)
    last = _subject_end(tokens, first, vocabulary)
    if not 0 < last - first <= _LONGEST:
        return None
    verb = skip_adverbs(tokens, _after_aside(tokens, last))
    if verb + 1 >= len(tokens) or verb - last > _ASIDE or not is_verb(tokens, verb):
        return None
    lead = text[tokens[0].start : tokens[lead_end - 1].end] if lead_end else ""
    return Clause(text, tokens[: _second_verb(tokens, verb)], lead, first, last, verb)


def _lead(tokens: list[Token]) -> tuple[int, int]:
    """Where an opening such as "In 1928," ends, and where the subject begins."""
    if tokens[0].low not in PREPOSITIONS:
        return 0, 0
    for at, token in enumerate(tokens[1:_OPENING], start=1):
        next_is_number = at + 1 < len(tokens) and tokens[at + 1].is_number
        if token.text == "," and not (tokens[at - 1].is_number and next_is_number):
            return at, at + 1
        if token.is_mark or is_verb(tokens, at):
            break
    opens_year = tokens[0].low in ("in", "by", "since") and tokens[1].is_number
    return (2, 2) if opens_year and len(tokens[1].text) == 4 else (0, 0)


def _subject_end(tokens: list[Token], first: int, vocabulary: Vocabulary) -> int:
    if first >= len(tokens) or tokens[first].low in PERSONAL:
        return first
    at = _nominal(tokens, first, vocabulary)
    while at > first and at + 1 < len(tokens) and tokens[at].low in _CHAIN:
        after = _nominal(tokens, at + 1, vocabulary)
        if after == at + 1:
            break
        at = after
    return at


def _nominal(tokens: list[Token], at: int, vocabulary: Vocabulary) -> int:
    """Where a noun phrase or a name ends, whichever is longer."""
    start = at + 1 if at < len(tokens) and tokens[at].low in DETERMINERS else at
    if start >= len(tokens):
        return at
    named = name_end(tokens, start, vocabulary)
    return max(noun_phrase(tokens, at, most=6), named if named > start else at)


def _after_aside(tokens: list[Token], at: int) -> int:
    """Past "(...)" or ", ... ," behind the subject; a mark without a partner stays where it is."""
    closing = {"(": ")", ",": ","}.get(tokens[at].text) if at < len(tokens) else None
    if closing is None:
        return at
    for place in range(at + 1, min(at + _ASIDE, len(tokens))):
        if tokens[place].text == closing:
            return place + 1
    return at


def _second_verb(tokens: list[Token], verb: int) -> int:
    """Where a second statement begins: "... and uses ATP", ", and construction began"."""
    main = FORMS.get(tokens[verb].low)
    for at in range(verb + 2, len(tokens) - 1):
        if tokens[at].low not in ("and", "but"):
            continue
        after = skip_adverbs(tokens, at + 1)
        behind_comma = tokens[at - 1].text == ","
        same_tense = _goes_on(tokens, after, main.tense if main else None)
        if same_tense or (behind_comma and _new_subject(tokens, after)):
            return at - 1 if behind_comma else at
    return len(tokens)


def _goes_on(tokens: list[Token], at: int, tense: str | None) -> bool:
    """Whether the token is a further verb of the same subject."""
    if at >= len(tokens):
        return False
    if tokens[at].low in AUXILIARIES:
        return True
    form = FORMS.get(tokens[at].low)
    if form is None:
        return False
    if form.tense in ("third", "past") and is_verb(tokens, at):
        return True
    return form.tense == tense and at + 1 < len(tokens) and tokens[at + 1].low != "of"


def _new_subject(tokens: list[Token], start: int) -> bool:
    """Whether a subject with a finite verb follows, and no further item of a list."""
    if start >= len(tokens):
        return False
    personal = tokens[start].low in PERSONAL
    end = start + 1 if personal else noun_phrase(tokens, start, most=6)
    verb = skip_adverbs(tokens, end)
    return end > start and verb < len(tokens) and is_verb(tokens, verb)
