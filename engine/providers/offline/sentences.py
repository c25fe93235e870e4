"""From blocks of prose to sentences, each with its place in the text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from engine.providers.offline.english.verbs import FORMS
from engine.providers.offline.english.words import (
    ABBREVIATIONS,
    PERSON_NOUNS,
    STARTERS,
    STOP_WORDS,
)
from engine.providers.offline.markup import Block

#: Longer ones are no sentences to learn from: lists without stops, data, or other scripts' prose.
MAX_CHARS: Final = 600


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence as it stands in the text, marks taken off."""

    text: str
    order: int
    #: Sentences of one block follow each other; a pronoun may look back inside it.
    block: int
    heading: str
    bold: tuple[str, ...]
    #: Whether it ends like a sentence; a list item or a caption may not.
    ended: bool

    @property
    def is_statement(self) -> bool:
        """Whether it is long enough to say something, and no question."""
        return len(self.text) >= 8 and not self.text.rstrip(_CLOSERS).endswith(("?", "？"))


_BEFORE_INITIAL: Final = STOP_WORDS | PERSON_NOUNS
_END: Final = re.compile(r"[.!?…]+[\"'”’»)\]]*(?=\s|$)|[。！？｡]+[”’」』）》】]*|[.!?]+(?=[“「])")
_INITIALS: Final = re.compile(r"(?:^|[\s(])(?:[A-Za-z]\.){2,}$")
_LAST_WORD: Final = re.compile(r"([A-Za-z]+(?:\.[A-Za-z]+)*)\.$")
_CLOSERS: Final = "\"'”’»)]」』）》】"


def read_sentences(blocks: list[Block]) -> list[Sentence]:
    """All sentences and list items in order, each once; headings only name what follows."""
    found: list[Sentence] = []
    seen: set[str] = set()
    heading = ""
    for number, block in enumerate(blocks):
        if block.kind == "heading":
            heading = block.text
            continue
        for text in split(block.text):
            if len(text) <= MAX_CHARS and text not in seen:
                seen.add(text)
                ended = text.rstrip(_CLOSERS)[-1:] in ".!?…。！？｡"
                bold = tuple(term for term in block.bold if term in text)
                found.append(Sentence(text, len(found), number, heading, bold, ended))
    return found


def split(text: str) -> Iterator[str]:
    """The sentences of one paragraph."""
    start = 0
    for mark in _END.finditer(text):
        if _is_end(text, start, mark):
            yield text[start : mark.end()].strip()
            start = mark.end()
    rest = text[start:].strip()
    if rest:
        yield rest


def _is_end(text: str, start: int, mark: re.Match[str]) -> bool:
    after = text[mark.end() : mark.end() + 40].lstrip()
    if not after or mark.group()[0] in "。！？｡":
        return True
    if after[0].islower() or after[0] in ",;:)":
        # "... he asked." goes on in lower case; so does an abbreviation within a sentence.
        return False
    if mark.group() != ".":
        return not (mark.group().startswith(("…", "...")) and not after[0].isupper())
    before = text[max(start, mark.start() - 30) : mark.start() + 1]
    return not _is_abbreviation(before, after, at_start=mark.start() - start < 3)


def _ends_noun(before: str, after: str) -> bool:
    """Whether a single letter names something ("465 °C.", "vitamin C.") and is no initial ("met J. Roe")."""
    match = re.search(r"(\S+?)\s?[A-Z]\.$", before)
    if match is None or re.match(r"[A-Z]\.", after):
        return False
    word = match.group(1)
    if word[-1] in "°0123456789":
        return True
    return word.isalpha() and word.islower() and word not in _BEFORE_INITIAL and word not in FORMS


def _is_abbreviation(before: str, after: str, *, at_start: bool) -> bool:
    """Whether the full stop at the end of ``before`` belongs to its last word."""
    next_word = re.match(r"[A-Za-z]+", after)
    starts_sentence = next_word is not None and next_word.group().lower() in STARTERS
    if _INITIALS.search(before):
        return not starts_sentence
    word = _LAST_WORD.search(before)
    if word is None:
        # "1. First" at the start of a sentence is a list mark that survived.
        return at_start and before[:-1].strip().isdigit()
    name = word.group(1)
    if len(name) == 1:
        return (
            name.isupper() and name != "I" and not starts_sentence and not _ends_noun(before, after)
        )
    if name.lower() in ("no", "nos", "fig", "figs", "eq", "p", "pp", "vol", "ch", "sec"):
        return after[0].isdigit()
    if name.lower() in (
        "inc",
        "ltd",
        "co",
        "corp",
        "etc",
        "jr",
        "sr",
        "al",
        "est",
        "col",
        "max",
        "min",
        "ed",
        "op",
    ):
        return not (starts_sentence or after[0].isupper())
    return name.lower() in ABBREVIATIONS
