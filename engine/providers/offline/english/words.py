"""English words that a reader of sentences has to know; the lists themselves are in ``lexicon.txt``."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Final


def _read_lexicon() -> dict[str, str]:
    """The text of each section. A section begins with its name in brackets, followed by a remark."""
    text = files(__package__).joinpath("lexicon.txt").read_text(encoding="utf-8")
    parts = re.split(r"^\[(\w+)\][^\n]*\n", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


_LEXICON: Final = _read_lexicon()


def words_of(text: str) -> frozenset[str]:
    """The words of a list that is written as one text."""
    return frozenset(text.split())


def lines_of(section: str) -> tuple[str, ...]:
    """The lines of a section of the lexicon."""
    return tuple(_LEXICON[section].strip().splitlines())


def section(name: str) -> frozenset[str]:
    """The words of a section of the lexicon."""
    return words_of(_LEXICON[name])


DETERMINERS: Final = section("determiners")
PERSONAL: Final = section("personal")
PREPOSITIONS: Final = section("prepositions")
CONJUNCTIONS: Final = section("conjunctions")
AUXILIARIES: Final = section("auxiliaries")
ADVERBS: Final = section("adverbs")
#: Words that carry no subject of their own; a gap never asks for one.
STOP_WORDS: Final = frozenset().union(
    DETERMINERS,
    PERSONAL,
    PREPOSITIONS,
    CONJUNCTIONS,
    AUXILIARIES,
    ADVERBS,
    section("other_stop_words"),
)
GENERIC: Final = section("generic")
ADJECTIVES: Final = section("adjectives")
NOUNS: Final = section("nouns")
PERSON_NOUNS: Final = section("person_nouns")
HUMAN_VERBS: Final = section("human_verbs")
ATE_NOUNS: Final = section("ate_nouns")
COMMON_ENDINGS: Final = tuple(sorted(section("common_endings")))
SCALES: Final = section("scales")
UNITS: Final = section("units")
FIRST_NAMES: Final = section("first_names")
STARTERS: Final = section("sentence_starters")
ABBREVIATIONS: Final = section("abbreviations")
CONNECTIVES: Final = lines_of("connectives")

_MONTHS = "January February March April May June July August September October November December"
MONTHS: Final = tuple(_MONTHS.split())
_WEEKDAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday"
WEEKDAYS: Final = tuple(_WEEKDAYS.split())
_TO_TWENTY = (
    "two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
    " seventeen eighteen nineteen twenty"
)
_TENS = "thirty forty fifty sixty seventy eighty ninety"
NUMBER_WORDS: Final = {word: n for n, word in enumerate(_TO_TWENTY.split(), start=2)} | {
    word: n * 10 for n, word in enumerate(_TENS.split(), start=3)
}
