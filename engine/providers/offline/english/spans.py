"""What can be asked for in an English sentence: dates, quantities, names and terms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from engine.providers.offline.english.dates import date_spans
from engine.providers.offline.english.names import name_spans
from engine.providers.offline.english.quantities import quantity_spans
from engine.providers.offline.english.tokens import Token, is_adjective, noun_phrase
from engine.providers.offline.english.verbs import AMBIGUOUS, FORMS
from engine.providers.offline.english.vocabulary import Vocabulary
from engine.providers.offline.english.words import DETERMINERS, GENERIC, NOUNS, section
from engine.providers.offline.facts import Span, apart

_BEFORE_ACTION: Final = section("before_actions")


def spans(text: str, tokens: list[Token], vocabulary: Vocabulary) -> list[Span]:
    """Every part of a sentence that is worth asking for, without overlaps, in order."""
    return apart(
        [
            *date_spans(text),
            *quantity_spans(text, tokens),
            *name_spans(text, tokens, vocabulary),
            *_terms(text, tokens, vocabulary),
        ]
    )


def _terms(text: str, tokens: list[Token], vocabulary: Vocabulary) -> Iterator[Span]:
    at = 0
    while at < len(tokens):
        end = noun_phrase(tokens, at)
        if end == at:
            at += 1
            continue
        span = _term(text, tokens, _core(tokens, at, end), end, vocabulary)
        if span is not None:
            yield span
        at = end


def _core(tokens: list[Token], start: int, end: int) -> int:
    """Where a noun phrase's own words begin."""
    while start < end and (
        tokens[start].low in DETERMINERS or tokens[start].is_number or _is_action(tokens, start)
    ):
        start += 1
    while start < end - 1 and tokens[start].low in GENERIC:
        start += 1
    return start


def _is_action(tokens: list[Token], at: int) -> bool:
    """Whether a word that may be a noun is the verb here: "to split water", "they release oxygen"."""
    word = tokens[at].low
    form = FORMS.get(word)
    if at == 0 or form is None or form.tense == "participle":
        return False
    before = tokens[at - 1].low
    if form.tense == "gerund":
        return word not in NOUNS and before not in DETERMINERS and not is_adjective(before)
    return before in _BEFORE_ACTION or (form.tense == "past" and word not in NOUNS)


def _term(
    text: str, tokens: list[Token], start: int, end: int, vocabulary: Vocabulary
) -> Span | None:
    if not 0 < end - start <= 4:
        return None
    phrase = text[tokens[start].start : tokens[end - 1].end]
    head = tokens[end - 1].low
    if len(phrase) < 3 or is_adjective(head) or head.endswith("'s"):
        return None
    if end - start == 1 and head in GENERIC:
        return None
    if end - start > 1 and _acts(tokens[start]):
        return None
    form = FORMS.get(head)
    doubtful = 0.4 if form is not None and form.tense in ("gerund", "base", "third") else 0.0
    compound = 0.25 if end - start in (2, 3) else 0.0
    weight = 0.7 + vocabulary.importance(phrase) + compound - doubtful
    return Span(tokens[start].start, tokens[end - 1].end, "term", weight)


def _acts(token: Token) -> bool:
    """Whether a word can only say what something does: "this keeps rivers alive"."""
    form = FORMS.get(token.low)
    third = form is not None and form.tense == "third"
    return third and token.low not in AMBIGUOUS and token.low not in NOUNS
