"""A sentence as tokens, and where its verbs and noun phrases are."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from engine.providers.offline.english.verbs import AMBIGUOUS, FORMS
from engine.providers.offline.english.words import (
    ADJECTIVES,
    ATE_NOUNS,
    AUXILIARIES,
    DETERMINERS,
    NOUNS,
    PREPOSITIONS,
    STOP_WORDS,
    words_of,
)

_TOKEN: Final = re.compile(
    r"(?:[A-Za-z]\.){2,}"  # U.S.
    r"|\b(?:Inc|Ltd|Co|Corp|Jr|Sr|Dr|Mr|Mrs|Ms|St|Prof|Mt)\.(?=\s|,)"
    r"|[$€£¥]?\d+(?:[.,:]\d+)*(?:st|nd|rd|th|s)?(?![^\W_])%?"  # 1,000.5  1990s  20th  45%
    r"|[^\W_]+(?:[-'’.][^\W_]+)*"  # well-known, cell's, A.B
    r"|[^\w\s]|_"
)
_SUBJECTS: Final = words_of("i you he she it we they who")
#: No finite verb stands right behind one of these: "through leaves", "the leaves".
_BEFORE_NOUN: Final = DETERMINERS | PREPOSITIONS
#: Stand between a subject and its verb.
_BETWEEN: Final = words_of("also often usually sometimes always still")
_NO_PLURAL: Final = ("ss", "us", "is", "ics", "'s")
_ADVERB: Final = re.compile(r"^[a-z]{3,}ly$")
_ADJECTIVE: Final = re.compile(
    r"(?:ous|ful|less|able|ible|ical|ic|al|ive|ish|ary|ory|ant|ent|ular|esque|most)$"
)
#: Endings that are nouns although they look like the adjectives above.
_NOUNISH: Final = re.compile(r"(?:ement|ment|ient|ant|ent|ory|ary|ival|usal|posal)s?$")


class Token:
    """A word, number or mark with its place in the sentence. Its properties are found once: they are asked often."""

    __slots__ = ("end", "is_capital", "is_mark", "is_number", "is_word", "low", "start", "text")

    def __init__(self, text: str, start: int, end: int) -> None:
        """Take the text and where it stands."""
        self.text = text
        self.start = start
        self.end = end
        #: In lower case, with a plain apostrophe.
        self.low = text.lower().replace("’", "'")
        first = text[0]
        #: Whether it begins with a capital letter.
        self.is_capital = first.isupper()
        #: Whether it begins with a digit, a currency aside.
        self.is_number = first.isdigit() or text.lstrip("$€£¥")[:1].isdigit()
        #: Whether it holds a letter.
        self.is_word = first.isalpha() or any(char.isalpha() for char in text)
        #: Whether it is punctuation.
        self.is_mark = not self.is_word and not any(char.isalnum() for char in text)


def tokenize(text: str) -> list[Token]:
    """The tokens of one sentence."""
    return [Token(m.group(), m.start(), m.end()) for m in _TOKEN.finditer(text)]


@lru_cache(maxsize=16_384)
def is_adverb(word: str) -> bool:
    """Whether a word in lower case looks like an adverb in -ly."""
    return bool(_ADVERB.match(word)) and word not in NOUNS


@lru_cache(maxsize=16_384)
def is_adjective(word: str) -> bool:
    """Whether a word in lower case is, or ends like, an adjective."""
    if word in NOUNS:
        return False
    return word in ADJECTIVES or (
        len(word) > 4 and bool(_ADJECTIVE.search(word)) and not _NOUNISH.search(word)
    )


def is_verb(tokens: list[Token], at: int) -> bool:
    """Whether the token is a finite verb, as far as its form and neighbours tell."""
    word = tokens[at].low
    if word in AUXILIARIES:
        return True
    form = FORMS.get(word)
    if form is None:
        return _is_unknown_past(tokens, at)
    if (tokens[at].is_capital and at > 0) or form.tense == "gerund":
        return False
    if word not in AMBIGUOUS and form.tense in ("third", "past", "base"):
        return at > 0 and tokens[at - 1].low not in _BEFORE_NOUN
    return _stands_like_verb(tokens, at)


def _is_unknown_past(tokens: list[Token], at: int) -> bool:
    word = tokens[at].text
    if at == 0 or not word.endswith("ed") or len(word) < 5 or not word.islower() or word in NOUNS:
        return False
    before = tokens[at - 1]
    return (
        before.is_word
        and before.low not in DETERMINERS | PREPOSITIONS
        and not is_adjective(before.low)
    )


def _stands_like_verb(tokens: list[Token], at: int) -> bool:
    """A word that may be a noun is a verb after a noun or pronoun and before an object, adverb or preposition."""
    if at == 0 or at + 1 >= len(tokens):
        return False
    before, after = tokens[at - 1], tokens[at + 1].low
    if before.low in _SUBJECTS:
        return True
    if not before.is_word or before.low in DETERMINERS or before.low in PREPOSITIONS:
        return False
    if is_adjective(before.low) or before.low.endswith("'s"):
        return False
    form = FORMS[tokens[at].low]
    if form.tense == "base" and _follows_several(tokens, at):
        return True
    singular = not before.low.endswith("s")
    if form.tense == "third" and singular and (after.endswith("s") or is_adjective(after)):
        # "the area holds changes"
        return True
    opens_object = after in DETERMINERS or after in (
        "it",
        "them",
        "him",
        "us",
        "itself",
        "themselves",
    )
    return (
        opens_object
        or is_adverb(after)
        or after in ("in", "into", "to", "from", "at", "on", "through", "as", "with")
    )


def _follows_several(tokens: list[Token], at: int) -> bool:
    """ "Wetlands release water", "ponds also trap sediment": a plural hardly ever stands before another noun."""
    before, after = tokens[at - 1], tokens[at + 1]
    if not is_content(after):
        return False
    if before.low in _BETWEEN:
        return True
    named = before.is_capital and at > 1
    return not named and before.low.endswith("s") and not before.low.endswith(_NO_PLURAL)


def is_content(token: Token) -> bool:
    """Whether a token can be part of a noun phrase's core."""
    word = token.low
    return token.is_word and word not in STOP_WORDS and not is_adverb(word)


def noun_phrase(tokens: list[Token], start: int, most: int = 5) -> int:
    """Where the noun phrase that begins at ``start`` (a determiner may open it) ends; ``start`` if there is none."""
    at = start
    if at < len(tokens) and tokens[at].low in DETERMINERS:
        at += 1
    core = at
    while at < len(tokens) and at - core < most and _fits(tokens, at, at > core):
        at += 1
    while at > core and not is_noun(tokens, at - 1):
        at -= 1
    return at if at > core else start


def _fits(tokens: list[Token], at: int, inside: bool) -> bool:
    token = tokens[at]
    if token.is_number and not inside:
        return True
    if not is_content(token):
        return False
    form = FORMS.get(token.low)
    if inside and token.low in ADJECTIVES and token.low not in NOUNS and is_noun(tokens, at - 1):
        # "in the atmosphere tiny droplets": another phrase begins.
        return False
    if form is None or token.is_capital:
        return True
    if form.tense == "gerund":
        return (
            not inside
            or token.low in NOUNS
            or (at + 1 < len(tokens) and is_content(tokens[at + 1]))
        )
    return not is_verb(tokens, at)


def is_noun(tokens: list[Token], at: int) -> bool:
    """Whether the token can end a noun phrase."""
    token = tokens[at]
    word = token.low
    if not is_content(token) or is_adjective(word):
        return False
    if token.is_capital or word in NOUNS:
        return True
    form = FORMS.get(word)
    if (
        form is not None
        and form.tense in ("gerund", "past", "participle")
        and word not in AMBIGUOUS
    ):
        return False
    if word.endswith("ate") and len(word) > 4 and word not in ATE_NOUNS:
        return False
    return not (word.endswith("ed") and len(word) > 4)
