"""Subjects on their own: whether they are clear, and how they read inside a question."""

from __future__ import annotations

from typing import Final

from engine.providers.offline.english.clauses import Clause
from engine.providers.offline.english.tokens import is_adjective
from engine.providers.offline.english.verbs import FORMS
from engine.providers.offline.english.vocabulary import Vocabulary
from engine.providers.offline.english.words import (
    COMMON_ENDINGS,
    DETERMINERS,
    GENERIC,
    NOUNS,
    section,
    words_of,
)

_POINTING: Final = section("pointing")
_LOOSE: Final = words_of("the both some many most all another each several few")
#: What "the" may stand before alone: a word the text is about.
_KNOWN: Final = 0.55


def is_vague(clause: Clause, vocabulary: Vocabulary) -> bool:
    """Whether the subject only makes sense after the sentence before."""
    tokens = clause.tokens[clause.first : clause.last]
    if tokens[0].low in _POINTING or any(t.low in ("this", "these", "those") for t in tokens):
        return True
    core = [token for token in tokens if token.low not in DETERMINERS]
    if len(core) != 1:
        return not core
    word = core[0].low
    if word in GENERIC or core[0].is_number:
        return True
    opener = tokens[0].low
    return opener in _LOOSE and (opener != "the" or vocabulary.importance(word) < _KNOWN)


def inside(clause: Clause, vocabulary: Vocabulary) -> str:
    """The subject as it reads inside a question: without a capital that only began the sentence."""
    first = clause.tokens[clause.first]
    starts = clause.first == 0 and not vocabulary.is_proper(first, 0)
    lower = first.low in DETERMINERS or (starts and _is_common(clause, vocabulary))
    subject = clause.subject
    if not lower or (first.text.isupper() and first.text != "A"):
        return subject
    return subject[0].lower() + subject[1:]


def _is_common(clause: Clause, vocabulary: Vocabulary) -> bool:
    """Whether the subject's first word is a common one, as far as text and spelling tell."""
    first = clause.tokens[clause.first]
    several = clause.last - clause.first > 1
    if several and clause.tokens[clause.first + 1].is_capital:
        return False
    if vocabulary.seen_lower(first.low) or first.low.endswith(COMMON_ENDINGS):
        return True
    if first.low in NOUNS or ("-" in first.text and first.text[1:].islower()):
        return True
    if several:
        word = first.low
        return is_adjective(word) or word in FORMS or word in GENERIC or word in NOUNS
    form = FORMS.get(clause.verb_word)
    plural_verb = form is not None and form.tense == "base"
    plural = plural_verb or clause.verb_word in ("are", "were", "have")
    return plural and first.low.endswith("s")
