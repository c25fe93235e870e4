"""One text made ready: its language, its sentences and all that they say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from engine.errors import SourceTextUnusable
from engine.providers.offline.chinese.reader import ChineseReader
from engine.providers.offline.english.reader import EnglishReader
from engine.providers.offline.facts import Fact, Kind
from engine.providers.offline.language import Reading, reading_of
from engine.providers.offline.markup import read_blocks
from engine.providers.offline.plain import PlainReader
from engine.providers.offline.sentences import Sentence, read_sentences


class Reader(Protocol):
    """Finds facts in the sentences of one language."""

    def facts(self) -> list[Fact]:
        """Every fact found, in the order of the text."""
        ...

    def terms(self) -> list[tuple[str, Kind]]:
        """Every name, term and quantity with its kind."""
        ...


@dataclass(frozen=True, slots=True)
class Study:
    """What can be made into cards and questions."""

    reading: Reading
    sentences: list[Sentence]
    #: Short lines that are no sentences, for texts that have nothing else.
    lines: list[str]
    reader: Reader


def study(text: str, title: str | None = None) -> Study:
    """Read a text. Raises :class:`SourceTextUnusable` where it holds no word: numbers alone say nothing."""
    blocks = read_blocks(text)
    if not any(char.isalpha() for block in blocks for char in block.text):
        raise SourceTextUnusable("The text holds no words.")
    sentences = read_sentences(blocks)
    reading = reading_of(" ".join(block.text for block in blocks[:400]))
    readers: dict[Reading, type[ChineseReader] | type[EnglishReader] | type[PlainReader]] = {
        "en": EnglishReader,
        "zh": ChineseReader,
        "other": PlainReader,
    }
    lines = list(dict.fromkeys(block.text[:300] for block in blocks))
    return Study(reading, sentences, lines, readers[reading](sentences, title or ""))
