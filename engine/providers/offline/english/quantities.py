"""Numbers with what they count or measure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from engine.providers.offline.english.tokens import Token, noun_phrase
from engine.providers.offline.english.words import (
    NUMBER_WORDS,
    SCALES,
    STOP_WORDS,
    UNITS,
    section,
)
from engine.providers.offline.facts import Span

_LABELS: Final = section("labels")
_RANGE: Final = re.compile(r"(?<![\w.,-])\d[\d.,]*\d?\s?(?:to|–|-)\s?\d[\d.,]*(?:%|\s?[^\W\d_]+)?")
_ORDINAL: Final = re.compile(r"(?:st|nd|rd|th|\ds)$")
_TWO_YEARS: Final = re.compile(r"[12]\d{3}.[12]\d{3}")
_PLURALS: Final = ("s", "children", "people", "feet", "men")


def quantity_spans(text: str, tokens: list[Token]) -> Iterator[Span]:
    """Ranges, numbers with their units, and number words before what they count."""
    yield from _ranges(text)
    for at, token in enumerate(tokens):
        counts = token.low in NUMBER_WORDS and _counts_nouns(tokens, at)
        if not (token.is_number or counts) or _is_label(text, tokens, at):
            continue
        if counts:
            yield Span(token.start, token.end, "count", 1.5)
        elif not _ORDINAL.search(token.low):
            yield Span(token.start, tokens[_unit_end(tokens, at) - 1].end, "number", 2.0)


def _ranges(text: str) -> Iterator[Span]:
    """The whole of "20 to 30 seconds" is one answer."""
    for match in _RANGE.finditer(text):
        unit = re.search(r"[^\W\d_]+$", match.group())
        whole = unit is None or unit.group().lower() in UNITS
        kept = match.group() if whole or unit is None else match.group()[: unit.start()]
        kept = kept.rstrip(" .,")
        if not _TWO_YEARS.fullmatch(kept):
            yield Span(match.start(), match.start() + len(kept), "number", 1.8)


def _unit_end(tokens: list[Token], at: int) -> int:
    end = at + 1
    while end < len(tokens) and (
        tokens[end].low in SCALES or tokens[end].low in UNITS or tokens[end].text in "%°"
    ):
        degrees = tokens[end].text == "°" and end + 1 < len(tokens)
        end += 2 if degrees and tokens[end + 1].text in ("C", "F") else 1
    return end


def _counts_nouns(tokens: list[Token], at: int) -> bool:
    end = noun_phrase(tokens, at + 1)
    before = tokens[at - 1].low if at else ""
    plural = end > at + 1 and tokens[end - 1].low.endswith(_PLURALS)
    return plural and before not in ("the", "these", "those", "-")


def _is_label(text: str, tokens: list[Token], at: int) -> bool:
    """Whether a number is part of a name or a reference: Figure 2, COVID-19, World War 2."""
    token = tokens[at]
    if text[max(0, token.start - 1) : token.start] in ("-", "–", "/", "."):
        return True
    if text[token.end : token.end + 1] in ("-", "/"):
        return True
    if at == 0:
        return False
    before = tokens[at - 1]
    if before.low in _LABELS or before.text in ("#", "§", "["):
        return True
    return before.is_capital and at > 1 and before.low not in STOP_WORDS
