"""Dates and years in English."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from engine.providers.offline.english.words import MONTHS
from engine.providers.offline.facts import Kind, Span

_MONTH: Final = "|".join(MONTHS)
_DATE: Final = re.compile(
    rf"\b(?:\d{{1,2}}(?:st|nd|rd|th)?\s(?:of\s)?(?:{_MONTH})(?:,?\s\d{{3,4}})?"
    rf"|(?:{_MONTH})\s\d{{1,2}}(?:st|nd|rd|th)?(?:,\s\d{{3,4}})?"
    rf"|(?:{_MONTH})\s\d{{3,4}})\b"
)
_YEAR: Final = re.compile(
    r"\b(?:\d{1,4}\s?(?:BC|BCE|AD|CE)\b|AD\s\d{1,4}\b|1\d{3}\b|20\d{2}\b)"
    r"(?!\s?(?:%|km|kg|m\b|mm|cm|°|years|people|miles))"
)
_BEFORE_YEAR: Final = re.compile(r"(?:\b\w+\s|[(–,-]\s?)$")
_CENTURY: Final = re.compile(
    r"\b(?:\d{1,2}(?:st|nd|rd|th)|[a-z]{5,11}(?:st|nd|rd|th))\s(?:century|centuries)\b"
    r"|\b1\d{2}0s\b|\b20\d0s\b"
)
_AT_END: Final = re.compile(
    r"(?:^|\s)(?:in|on|since|around|about)\s"
    rf"((?:\d{{1,2}}\s)?(?:(?:{_MONTH})\s)?(?:\d{{1,2}},\s)?\d{{3,4}}(?:\s(?:BC|BCE|AD|CE))?)$"
)
_LEAD: Final = re.compile(
    rf"(?:In|On)\s((?:\d{{1,2}}\s)?(?:(?:{_MONTH})\s)?(?:\d{{1,2}},\s)?\d{{3,4}}(?:\s(?:BC|BCE|AD))?)"
)
_OPENS: Final = re.compile(rf"\d{{3,4}}$|(?:{_MONTH})\b")


def date_spans(text: str) -> Iterator[Span]:
    """The dates, centuries and years of a sentence; later ones may lie inside earlier ones."""
    for match in _DATE.finditer(text):
        yield Span(match.start(), match.end(), "date", 2.2)
    for match in _CENTURY.finditer(text):
        yield Span(match.start(), match.end(), "date", 1.6)
    for match in _YEAR.finditer(text):
        before, after = text[: match.start()], text[match.end() :]
        goes_on = after[:1] in ("-", ".", ",", "–") and after[1:2].isdigit()
        if not goes_on and _BEFORE_YEAR.search(before) and before[-1:] not in "$€£-":
            yield Span(match.start(), match.end(), "year", 2.4)


def split_date(text: str) -> tuple[str, str] | None:
    """What stands before "in 1961" at the end of ``text``, and the date; None without one."""
    match = _AT_END.search(text)
    return (text[: match.start()].strip(), match.group(1)) if match else None


def date_of_lead(lead: str) -> str | None:
    """The date of an opening that is nothing else: "In 1928"."""
    match = _LEAD.fullmatch(lead)
    return match.group(1) if match else None


def begins_with_date(text: str) -> bool:
    """Whether ``text`` is a year or begins with a month."""
    return bool(_OPENS.match(text))


def kind_of_date(date: str) -> Kind:
    """A bare year is asked for, and mixed up, with other years."""
    return "year" if date.isdigit() else "date"
