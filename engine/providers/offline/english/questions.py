"""Questions that an English sentence answers, made from its frame."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from engine.providers.offline.english.asking import Asking, Question
from engine.providers.offline.english.being import questions_of_being
from engine.providers.offline.english.clauses import Clause
from engine.providers.offline.english.counting import how_many
from engine.providers.offline.english.doing import questions_of_doing
from engine.providers.offline.english.subjects import inside, is_vague
from engine.providers.offline.english.verbs import FORMS
from engine.providers.offline.english.vocabulary import Vocabulary
from engine.providers.offline.english.words import words_of

_BE: Final = words_of("is are was were")
_HAVE: Final = {"has": "does", "have": "do", "had": "did"}
_MODALS: Final = words_of("can may must will could should")
_NO: Final = words_of("not never no cannot")


def questions(clause: Clause, vocabulary: Vocabulary) -> Iterator[Question]:
    """All questions of one clause. None where its subject is unclear, or where it denies something."""
    if is_vague(clause, vocabulary) or _denies(clause):
        return
    asking = Asking(clause, inside(clause, vocabulary), vocabulary)
    verb = clause.verb_word
    if verb in _BE:
        yield from questions_of_being(asking)
    elif verb in _HAVE:
        yield from how_many(asking, _HAVE[verb], "have")
    elif verb in _MODALS:
        yield from _of_ability(asking)
    else:
        yield from questions_of_doing(asking)


def _of_ability(asking: Asking) -> Iterator[Question]:
    """X can contain 50 Y."""
    clause = asking.clause
    at = clause.after_verb()
    form = FORMS.get(clause.word(at))
    if form is not None and form.tense == "base":
        moved = replace(asking, clause=replace(clause, verb=at))
        yield from how_many(moved, clause.verb_word, form.base)


def _denies(clause: Clause) -> bool:
    return any(token.low in _NO or token.low.endswith("n't") for token in clause.tokens)
