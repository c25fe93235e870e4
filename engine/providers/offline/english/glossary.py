"""Meanings that are written down as such: "Term: meaning", "a long name (ALN)"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from engine.providers.offline.english.asking import capitalized
from engine.providers.offline.english.tokens import Token, is_adjective, is_verb, tokenize
from engine.providers.offline.english.verbs import FORMS
from engine.providers.offline.english.words import ADVERBS, NOUNS, STOP_WORDS, section
from engine.providers.offline.facts import Fact
from engine.providers.offline.sentences import Sentence

_ENTRY: Final = re.compile(
    r"^(?P<term>[^\W_][^:.;!?–—]{0,58}?)(?::\s+|\s+[–—-]\s+)(?P<meaning>\S.{7,400})$"
)
_NO_TERM: Final = re.compile(
    r"^(?:step \d+|figure.*|table.*|chapter.*|see.*|p\.? ?\d+|\d.*)$", re.I
)
_NO_TERMS: Final = section("no_terms")
_ACRONYM: Final = re.compile(r"\(([A-Z][A-Za-z]{0,2}[A-Z][A-Za-z]{0,4})s?\)")
#: A meaning is a phrase; these open sentences about something else.
_SENTENCE: Final = re.compile(
    r"^(?:this|these|it|they|he|she|we|you|i|everything|there|here|be|please|if|when|as|similar to)\b",
    re.I,
)
#: Words a term has at most.
_LONGEST: Final = 6


def entry(text: str) -> re.Match[str] | None:
    """A line of a glossary, with groups ``term`` and ``meaning``; None for any other line."""
    match = _ENTRY.match(text)
    if match is None:
        return None
    term = tokenize(match["term"])
    refused = _NO_TERM.match(match["term"]) or match["term"].lower() in _NO_TERMS
    if refused or len(term) > _LONGEST or len(match["meaning"].split()) < 2:
        return None
    return None if any(_acts(term, at) for at in range(len(term))) else match


def _acts(term: list[Token], at: int) -> bool:
    """Whether a word of a term makes a statement of it: "The ponds also trap sediment"."""
    word = term[at].low
    if is_verb(term, at) or (word in ADVERBS and 0 < at < len(term) - 1):
        return True
    form = FORMS.get(word)
    inside = 0 < at < len(term) - 1 and word not in NOUNS and not term[at].is_capital
    return inside and form is not None and form.tense == "third"


def meaning_of(sentence: Sentence) -> Fact | None:
    """What a glossary entry says."""
    match = entry(sentence.text)
    if match is None or (not sentence.bold and sentence.ended and "," in match["term"]):
        return None
    phrase = match["meaning"].lower().startswith(("a ", "an ", "the "))
    if (is_adjective(match["term"].lower()) and not phrase) or _SENTENCE.match(match["meaning"]):
        return None
    term, meaning = match["term"].strip(" \"“”'"), match["meaning"].strip().rstrip(".;")
    form = FORMS.get(meaning.split()[0].lower())
    acts = form is not None and form.tense == "third"
    front = f"{term}: what does it do?" if acts else f"What is meant by “{term}”?"
    return Fact(sentence, front, capitalized(meaning), "definition", 3.2, about=term)


def acronyms(sentence: Sentence) -> Iterator[Fact]:
    """What the acronyms in brackets stand for."""
    for match in _ACRONYM.finditer(sentence.text):
        long = _expansion(match.group(1), sentence.text[: match.start()].rstrip())
        if long is not None:
            front = f"What does {match.group(1)} stand for?"
            yield Fact(sentence, front, capitalized(long), "phrase", 2.8)


def _expansion(letters: str, before: str) -> str | None:
    """The words before an acronym that it is made of; small words may stand between."""
    wanted = letters.lower()
    words = list(re.finditer(r"[A-Za-z]+", before[-200:]))
    for length in range(2, min(len(wanted) + 3, len(words)) + 1):
        candidate = words[-length:]
        opens = candidate[0].group().lower() not in STOP_WORDS
        if opens and _spells(wanted, [word.group().lower() for word in candidate]):
            return before[-200:][candidate[0].start() :]
    return None


def _spells(letters: str, words: list[str]) -> bool:
    """Whether first letters of ``words``, and some of their other letters, are ``letters`` in order."""
    if not words or not letters:
        return not words and not letters
    if words[0][0] != letters[0]:
        return words[0] in STOP_WORDS and _spells(letters, words[1:])
    for taken in range(1, len(letters) + 1):
        inner = iter(words[0][1:])
        if not all(letter in inner for letter in letters[1:taken]):
            break
        if _spells(letters[taken:], words[1:]):
            return True
    return False
