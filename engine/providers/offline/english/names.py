"""Names in English: runs of capitalised words, with the small words that tie them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from engine.providers.offline.english.tokens import Token, is_adjective, is_content
from engine.providers.offline.english.verbs import FORMS
from engine.providers.offline.english.vocabulary import Vocabulary
from engine.providers.offline.english.words import (
    AUXILIARIES,
    CONJUNCTIONS,
    DETERMINERS,
    MONTHS,
    NOUNS,
    PREPOSITIONS,
    STOP_WORDS,
    WEEKDAYS,
    section,
)
from engine.providers.offline.facts import Kind, Span

_LINKS: Final = section("name_links")
_NEVER: Final = DETERMINERS | PREPOSITIONS | CONJUNCTIONS | AUXILIARIES
_CALENDAR: Final = frozenset((*MONTHS, *WEEKDAYS, "I"))
_DEMONYM: Final = re.compile(r"(?:ish|ese|[^s]ian|can|rench|erman|reek|utch)$")
_PLACE_BEFORE: Final = ("in", "at", "near", "to", "from", "across", "throughout")


def name_spans(text: str, tokens: list[Token], vocabulary: Vocabulary) -> Iterator[Span]:
    """The names of a sentence, each with the nouns that belong to it."""
    at = 0
    while at < len(tokens):
        end = name_end(tokens, at, vocabulary)
        words = [token.text for token in tokens[at:end]]
        if words and not (len(words) == 1 and words[0] in _CALENDAR):
            yield _span(text, tokens, _start(tokens, at), end, vocabulary)
        at = max(end, at + 1)


def _start(tokens: list[Token], at: int) -> int:
    """A stop word with a capital inside a sentence is the beginning of the name: Third Party."""
    before = tokens[at - 1] if at > 1 else None
    opens = before is not None and before.is_capital and before.low not in _NEVER
    return at - 1 if opens else at


def _span(text: str, tokens: list[Token], at: int, end: int, vocabulary: Vocabulary) -> Span:
    words = [token.text for token in tokens[at:end]]
    owner = tokens[end - 1].low.endswith("'s")
    whole = end if owner else _with_nouns(tokens, end)
    start, stop = tokens[at].start, tokens[whole - 1].end - (2 if owner else 0)
    kind: Kind = "term" if whole > end else _kind(tokens, at, words, vocabulary)
    weight = 1.9 + 0.6 * min(1.0, vocabulary.importance(text[start:stop]))
    # "East German" alone is an adjective, and no answer to anything.
    bare_people = whole == end and bool(_DEMONYM.search(words[-1]))
    return Span(start, stop, kind, weight - (1.2 if bare_people else 0.0))


def name_end(tokens: list[Token], at: int, vocabulary: Vocabulary) -> int:
    """Where the name that begins at ``at`` ends; ``at`` if there is none."""
    if not (vocabulary.is_proper(tokens[at], at) or _opens_sentence(tokens, at, vocabulary)):
        return at
    end = at + 1
    while end < len(tokens):
        step = _next(tokens, end, vocabulary)
        if not step:
            break
        end += step
    return end


def _opens_sentence(tokens: list[Token], at: int, vocabulary: Vocabulary) -> bool:
    """The first word of a sentence is part of a name where the second one shows it."""
    first = tokens[at]
    if at > 0 or len(tokens) < 2 or not first.is_capital or first.low in STOP_WORDS:
        return False
    return vocabulary.is_proper(tokens[1], 1) and not vocabulary.seen_lower(first.low)


def _next(tokens: list[Token], at: int, vocabulary: Vocabulary) -> int:
    """How many tokens at ``at`` go on with the name."""
    token = tokens[at]
    if token.is_capital and token.low not in STOP_WORDS:
        return 1
    if vocabulary.is_proper(token, at):
        return 1
    if token.text == "." and len(tokens[at - 1].text) == 1 and at + 1 < len(tokens):
        return 1 if tokens[at + 1].is_capital else 0
    return _linked(tokens, at, vocabulary)


def _linked(tokens: list[Token], at: int, vocabulary: Vocabulary) -> int:
    word = tokens[at].low
    if word not in _LINKS or at + 1 >= len(tokens):
        return 0
    after = tokens[at + 1]
    if word in ("v", "vs"):
        return int(after.is_capital)
    if word == "in":
        # "Nobel Prize in Physics" is one name, "Berlin in Germany" is two.
        return int(tokens[at - 1].low in ("prize", "award", "medal") and after.is_capital)
    if word == "of" and after.low == "the":
        beyond = at + 2 < len(tokens) and vocabulary.is_proper(tokens[at + 2], at + 2)
        return 2 if beyond else 0
    return int(vocabulary.is_proper(after, at + 1))


def _with_nouns(tokens: list[Token], end: int) -> int:
    """Where a name ends together with the nouns that belong to it: "Calvin cycle"."""
    at = end
    while at < len(tokens) and at - end < 2 and _is_plain_noun(tokens[at]):
        at += 1
    return at


def _is_plain_noun(token: Token) -> bool:
    word = token.text
    if not word.islower() or len(word) < 3 or not is_content(token) or is_adjective(word):
        return False
    return word in NOUNS or not (word in FORMS or word.endswith(("ed", "ing")))


def _kind(tokens: list[Token], at: int, words: list[str], vocabulary: Vocabulary) -> Kind:
    if vocabulary.is_person(words):
        return "person"
    before = tokens[at - 1].low if at else ""
    if before == "the" and at > 1:
        before = tokens[at - 2].low
    return "place" if before in _PLACE_BEFORE and not words[0].isupper() else "name"
