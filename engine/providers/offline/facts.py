"""What a text says, one thing at a time: a question or a gap, and its answer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from engine.providers.offline.sentences import Sentence

#: What kind of thing an answer is. Wrong options of a quiz are of the same kind.
Kind = Literal[
    "definition",
    "term",
    "person",
    "place",
    "name",
    "year",
    "date",
    "number",
    "count",
    "phrase",
    "whole",
]

#: Stands where the answer was.
GAP: Final = "_____"


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that one sentence says."""

    sentence: Sentence
    front: str
    answer: str
    kind: Kind
    #: How well it asks; comparable within one text.
    weight: float
    is_cloze: bool = False
    #: What a definition defines, without an article.
    about: str = ""


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a sentence that can be asked for."""

    start: int
    end: int
    kind: Kind
    weight: float

    def of(self, text: str) -> str:
        """The part itself."""
        return text[self.start : self.end]


def apart(candidates: Iterable[Span]) -> list[Span]:
    """The spans that overlap no earlier one, in the order of the text."""
    found: list[Span] = []
    for span in candidates:
        if not any(span.start < other.end and other.start < span.end for other in found):
            found.append(span)
    return sorted(found, key=lambda span: span.start)
