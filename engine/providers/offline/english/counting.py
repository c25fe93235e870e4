"""Questions that begin with "why" and "how many", whatever the verb."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from engine.providers.offline.english.asking import Asking, Question, cut_tail, joined
from engine.providers.offline.english.tokens import Token, noun_phrase
from engine.providers.offline.english.words import NUMBER_WORDS, words_of
from engine.providers.offline.facts import Kind

_ABOUT: Final = words_of("about approximately over around nearly")
_PLURALS: Final = ("s", "people", "children", "feet")
#: Words that may follow what is counted.
_LONGEST_REST: Final = 10


def why(asking: Asking, opening: str) -> Iterator[Question]:
    """X happens because Y."""
    rest = asking.clause.part(asking.clause.verb + 1)
    said, found, reason = rest.partition(" because ")
    if found and len(reason.split()) >= 3 and not reason.startswith("of ") and "," not in said:
        asked = joined("Why", opening, said.strip())
        yield asking.question(asked, f"Because {cut_tail(reason)}", "phrase", 3.0)


def how_many(asking: Asking, do: str, base: str) -> Iterator[Question]:
    """X has 206 bones. X consists of four chambers."""
    clause = asking.clause
    at = clause.after_verb()
    link = "of" if clause.word(at) == "of" else ""
    at += bool(link)
    about = clause.part(at, at + 1) if clause.word(at) in _ABOUT else ""
    at += bool(about)
    end = noun_phrase(clause.tokens, at + 1)
    if at + 1 >= len(clause.tokens) or end == at + 1 or not _counts(clause.tokens[at]):
        return
    noun = clause.part(at + 1, end)
    if not noun.lower().endswith(_PLURALS) or clause.word(end) == "ago":
        return
    number = clause.tokens[at].text
    kind: Kind = "count" if number.lower() in NUMBER_WORDS else "number"
    asked = joined("How many", noun, do, asking.subject, base, link, _rest(clause.part(end)))
    yield asking.question(asked, joined(about, number), kind, 2.7)


def _counts(token: Token) -> bool:
    """Whether a token says how many; four digits are more likely a year."""
    if token.low in NUMBER_WORDS:
        return True
    year = len(token.text) == 4 and token.text.isdigit()
    return token.text[0].isdigit() and not token.text.endswith("%") and not year


def _rest(text: str) -> str:
    rest = cut_tail(text) if text else ""
    loose = rest[:1] in tuple(",;:(–—") or len(rest.split()) > _LONGEST_REST
    return "" if loose else rest
