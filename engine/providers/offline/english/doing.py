"""Questions to sentences of the form "X does ..."."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from engine.providers.offline.english.asking import Asking, Question, cut_tail, joined
from engine.providers.offline.english.clauses import skip_adverbs
from engine.providers.offline.english.counting import how_many, why
from engine.providers.offline.english.dates import (
    begins_with_date,
    date_of_lead,
    kind_of_date,
    split_date,
)
from engine.providers.offline.english.tokens import noun_phrase
from engine.providers.offline.english.verbs import FORMS
from engine.providers.offline.english.words import section, words_of

_DO: Final = {"third": "does", "base": "do", "past": "did"}
#: Verbs that say nothing anybody could be asked about.
_EMPTY: Final = words_of(
    "be do have become seem appear remain prove get go come turn stay keep feel look sound"
)
_PLACE_VERBS: Final = section("place_verbs")
_CHANGING: Final = section("changing_verbs")
_PREPOSITIONS: Final = words_of("of to for from into on with in as by at through between")
_STRONG: Final = words_of("consist refer stand lead depend result")
_GOES_ON: Final = words_of("called named known that which of")
_AGO: Final = re.compile(
    r"(?:(?:about|some|around|over|nearly)\s)?[\d.,]+\s(?:(?:thousand|million|billion)\s)?years\sago\b"
)
_RELATIVE: Final = re.compile(r", (?:which|who|where|whose)\b|;")
_LONGEST_PHRASE: Final = 25


def questions_of_doing(asking: Asking) -> Iterator[Question]:
    """Why, when, how many, what, who."""
    clause = asking.clause
    form = FORMS.get(clause.verb_word)
    if form is None or form.tense not in _DO or form.base in _EMPTY:
        return
    do = _DO[form.tense]
    if form.base == "take" and clause.word(clause.verb + 1) == "place":
        yield from _takes_place(asking, do)
        return
    yield from why(asking, joined(do, asking.subject, form.base))
    if do == "did":
        yield from _when(asking, form.base)
    yield from how_many(asking, do, form.base)
    yield from _by_object(asking, do, form.base)
    yield from _by_subject(asking, form.tense)


def _takes_place(asking: Asking, do: str) -> Iterator[Question]:
    clause = asking.clause
    at = skip_adverbs(clause.tokens, clause.verb + 2)
    if clause.word(at) in ("in", "on", "at", "inside", "within"):
        answer = cut_tail(clause.part(at))
        asks = "When" if split_date(answer) == ("", answer.partition(" ")[2]) else "Where"
        yield asking.question(f"{asks} {do} {asking.subject} take place", answer, "phrase", 2.7)


def _when(asking: Asking, base: str) -> Iterator[Question]:
    """X discovered Y in 1928. In 1928, X discovered Y."""
    clause = asking.clause
    whole = clause.part(clause.verb + 1)
    ago = _AGO.search(whole)
    if ago and not clause.lead:
        asked = joined("When did", asking.subject, base, whole[: ago.start()].strip(" ,"))
        yield asking.question(asked, ago.group(), "date", 2.7)
        return
    dated = split_date(cut_tail(whole))
    if dated and not clause.lead and "," not in dated[0] and len(dated[0].split()) <= 12:
        asked = joined("When did", asking.subject, base, dated[0])
        yield asking.question(asked, dated[1], kind_of_date(dated[1]), 2.7)
    date = date_of_lead(clause.lead)
    if date and "," not in whole and len(whole.split()) <= 14:
        asked = joined("When did", asking.subject, base, whole)
        yield Question(f"{asked}?", date, kind_of_date(date), 2.8)


def _by_object(asking: Asking, do: str, base: str) -> Iterator[Question]:
    """X refers to Y. X means Y. X converts A into B. X produces Y."""
    clause = asking.clause
    at = clause.after_verb()
    if clause.word(at) in _PREPOSITIONS and clause.word(at + 1):
        yield from _with_preposition(asking, do, base, at)
    elif base == "mean" and clause.word(at) not in ("", "that"):
        answer = cut_tail(clause.part(at))
        yield asking.question(f"What {do} {asking.subject} mean", answer, "phrase", 2.9)
    elif clause.word(at):
        yield from _direct_object(asking, do, base, at)


def _direct_object(asking: Asking, do: str, base: str, at: int) -> Iterator[Question]:
    clause = asking.clause
    end = noun_phrase(clause.tokens, at)
    if not 0 < end - at <= 6:
        return
    opening = joined("What", do, asking.subject, base)
    rest = clause.part(end)
    words = rest.split()
    if rest.startswith("into ") and base in _CHANGING:
        asked = f"{opening} {clause.part(at, end)} into"
        yield asking.question(asked, cut_tail(rest[5:]), "phrase", 2.9)
    elif words and words[0] in _GOES_ON and len(words) <= 10:
        yield asking.question(opening, cut_tail(clause.part(at)), "phrase", 2.2)
    elif not clause.tokens[at].is_capital and _is_simple(words, rest):
        yield asking.question(joined(opening, rest), clause.part(at, end), "term", 2.2)


def _is_simple(words: list[str], rest: str) -> bool:
    """Whether what follows the object can stand behind the question."""
    if not words:
        return True
    return words[0] in _PREPOSITIONS and "," not in rest and len(words) <= 9


def _with_preposition(asking: Asking, do: str, base: str, at: int) -> Iterator[Question]:
    clause = asking.clause
    preposition = clause.word(at)
    answer = cut_tail(clause.part(at + 1))
    if not answer or len(answer.split()) > _LONGEST_PHRASE or begins_with_date(answer):
        return
    opening = joined(do, asking.subject, base)
    if preposition in ("in", "on", "at"):
        if base in _PLACE_VERBS and not split_date(f"{preposition} {answer}"):
            answer = f"{preposition} {answer}"
            yield asking.question(f"Where {opening}", answer, "phrase", 2.3)
    elif preposition in ("of", "to", "for", "from", "into"):
        weight = 2.8 if base in _STRONG else 2.2
        yield asking.question(f"What {opening} {preposition}", answer, "phrase", weight)


def _by_subject(asking: Asking, tense: str) -> Iterator[Question]:
    """Who discovered Y? What absorbs Y? Only where the verb agrees with a singular."""
    clause = asking.clause
    if tense == "base" or clause.last - clause.first > 5 or clause.verb_word in ("means", "meant"):
        return
    predicate = clause.part(clause.verb)
    short = cut_tail(predicate)
    if short != predicate and not _RELATIVE.match(predicate[len(short) :]):
        # Cut anywhere else, the question would say less than the sentence.
        return
    if not 3 <= len(short.split()) <= (18 if "," not in short else 12):
        return
    if asking.vocabulary.is_person(clause.subject_words):
        yield asking.question(f"Who {short}", clause.subject, "person", 2.3)
    elif (
        tense == "third"
        and clause.word(clause.verb + 1) not in ("that", "which")
        and not (clause.tokens[clause.first].is_capital and clause.first > 0)
    ):
        yield asking.question(f"What {short}", clause.subject, "term", 1.9)
