"""Questions to sentences of the form "X is ..."."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from engine.providers.offline.english.asking import Asking, Question, cut_tail, joined
from engine.providers.offline.english.clauses import Clause, skip_adverbs
from engine.providers.offline.english.counting import why
from engine.providers.offline.english.dates import begins_with_date, kind_of_date, split_date
from engine.providers.offline.english.names import name_end
from engine.providers.offline.english.tokens import is_adjective, noun_phrase
from engine.providers.offline.english.verbs import FORMS, is_participle
from engine.providers.offline.english.vocabulary import Vocabulary, is_person_noun
from engine.providers.offline.english.words import DETERMINERS, PERSONAL, section, words_of
from engine.providers.offline.facts import Kind

_MEASURES: Final = section("measures")
_WHERE: Final = section("places")
_STATES: Final = section("states")
_PREPOSITIONS: Final = words_of("of to for from into on with in as by at through between")
_NAMING: Final = words_of("called named termed known considered")
_ARTICLES: Final = words_of("a an the one any another")
_NO_NOUN: Final = PERSONAL | words_of("that what why how to")
_MEASURE: Final = re.compile(
    r"((?:about |approximately |over |nearly |around )?[\d.,]+(?: [a-z]+)? [a-z]+) ([a-z]+)\b"
)
_TIME: Final = re.compile(r",?\s(?:in|on|around|about)\s(?:[A-Za-z]+\s)?(?:\d{1,2},?\s)?\d{3,4}\b")
_WEAK: Final = re.compile(r"(?:one of the|an? (?:good|great|important|key|major|common) )")
_BEFORE_DETAIL: Final = re.compile(r"\b(?:who|that|which|of|from|in|and|best)\b|,")
#: Words an answer has at most.
_LONGEST: Final = 40
_LONGEST_PHRASE: Final = 25


def questions_of_being(asking: Asking) -> Iterator[Question]:
    """Why, how long, what it is, when and where it was made, what it is called."""
    clause = asking.clause
    at = clause.after_verb()
    if at >= len(clause.tokens):
        return
    yield from why(asking, joined(clause.verb_word, asking.subject))
    yield from _measure(asking, at)
    if is_participle(clause.word(at)) or clause.word(at) in _STATES:
        yield from _of_participle(asking, at)
    else:
        yield from _definition(asking, at)


def _measure(asking: Asking, at: int) -> Iterator[Question]:
    """X was 155 kilometres long."""
    found = _MEASURE.match(asking.clause.part(at))
    if found and found.group(2) in _MEASURES:
        asked = f"How {found.group(2)} {asking.clause.verb_word} {asking.subject}"
        yield asking.question(asked, found.group(1), "number", 2.8)


def _definition(asking: Asking, at: int) -> Iterator[Question]:
    """X is a Y that ..."""
    clause = asking.clause
    opener = clause.word(at)
    rest = clause.part(at)
    answer = cut_tail(rest) if len(rest.split()) > 14 or "," in rest[-60:] else rest
    article = opener in _ARTICLES
    if not article and (opener in _NO_NOUN or not _is_nominal(asking, at)):
        return
    fewest = 3 if opener in ("a", "an", "one") else 1
    if not fewest <= len(answer.split()) <= _LONGEST:
        return
    asks = "Who" if _is_person(clause, answer, asking.vocabulary) else "What"
    weight = 3.0 if opener in ("a", "an", "the", "any") else 2.4
    kind: Kind = "definition" if article or _is_plural(clause, at) else "name"
    asked = f"{asks} {clause.verb_word} {asking.subject}"
    yield asking.question(asked, answer, kind, weight - (0.8 if _WEAK.match(answer) else 0.0))


def _is_nominal(asking: Asking, at: int) -> bool:
    """Whether a name, a plural or a noun without an article can be an answer of its own."""
    clause = asking.clause
    if name_end(clause.tokens, at, asking.vocabulary) > at or _is_plural(clause, at):
        return True
    end = noun_phrase(clause.tokens, at)
    ends = end == len(clause.tokens) or clause.word(end) == ","
    bare = end > at and ends and not is_adjective(clause.word(at))
    return bare and asking.subject.startswith("the ")


def _is_plural(clause: Clause, at: int) -> bool:
    several = clause.verb_word in ("are", "were")
    return several and noun_phrase(clause.tokens, at) > at and not is_adjective(clause.word(at))


def _is_person(clause: Clause, answer: str, vocabulary: Vocabulary) -> bool:
    first = clause.tokens[clause.first]
    if first.low in DETERMINERS or not first.is_capital:
        return False
    if vocabulary.is_person(clause.subject_words):
        return True
    head = _BEFORE_DETAIL.split(answer, maxsplit=1)[0].split()
    proper = name_end(clause.tokens, clause.first, vocabulary) == clause.last
    short = clause.last - clause.first <= 4
    return proper and short and bool(head) and is_person_noun(head[-1])


def _of_participle(asking: Asking, at: int) -> Iterator[Question]:
    """X was built in 1961. X is called Y. X is divided into Y."""
    clause = asking.clause
    opening = joined(clause.verb_word, asking.subject, clause.word(at))
    rest = cut_tail(clause.part(at + 1))
    dated = split_date(rest)
    if dated and clause.verb_word in ("was", "were") and not clause.lead:
        # Cut at a comma it would name one of several makers as the only one.
        asked = joined("When", opening, "" if "," in dated[0] else dated[0])
        yield asking.question(asked, dated[1], kind_of_date(dated[1]), 2.9)
    if clause.word(at) in _NAMING:
        yield from _called(asking, at)
    after = skip_adverbs(clause.tokens, at + 1)
    if clause.word(after) in _PREPOSITIONS and clause.word(after + 1):
        yield from _with_preposition(asking, opening, clause.word(at), after)


def _called(asking: Asking, at: int) -> Iterator[Question]:
    clause = asking.clause
    rest = clause.part(at + 1)
    link = "as" if rest.startswith("as ") else ""
    if clause.word(at) in ("known", "considered") and not link:
        return
    also = "also" if any(t.low == "also" for t in clause.tokens[clause.verb : at]) else ""
    answer = cut_tail(rest.removeprefix("as ")).strip("\"“”'‘’")
    if 1 <= len(answer.split()) <= 8:
        asked = joined("What", clause.verb_word, asking.subject, also, clause.word(at), link)
        yield asking.question(asked, answer, "term", 2.9)


def _with_preposition(asking: Asking, opening: str, participle: str, at: int) -> Iterator[Question]:
    """X was named by Y. X is used for Y. X is found in Y."""
    clause = asking.clause
    preposition = clause.word(at)
    answer = cut_tail(clause.part(at + 1))
    form = FORMS.get(clause.word(at + 1))
    if preposition == "to" and form is not None and form.tense == "base":
        yield _purpose(asking, opening, participle, answer)
        return
    if preposition == "as" and (participle == "known" or (form and form.tense == "gerund")):
        return
    if preposition == "by":
        answer = _TIME.split(answer, maxsplit=1)[0]
    if not answer or begins_with_date(answer) or len(answer.split()) > _LONGEST_PHRASE:
        return
    if preposition in ("in", "on", "at"):
        if participle in _WHERE:
            answer = f"{preposition} {answer}"
            yield asking.question(f"Where {opening}", answer, "phrase", 2.5)
        return
    yield _about(asking, f"{opening} {preposition}", preposition, answer)


def _purpose(asking: Asking, opening: str, participle: str, answer: str) -> Question:
    if participle == "used":
        return asking.question(f"What {opening} for", f"To {answer}", "phrase", 2.6)
    return asking.question(f"What {opening} to do", answer, "phrase", 2.4)


def _about(asking: Asking, opening: str, preposition: str, answer: str) -> Question:
    if preposition == "by" and asking.vocabulary.is_person(answer.split()):
        return asking.question(f"Who {opening}", answer, "person", 2.7)
    if preposition == "by" and answer[0].isupper():
        return asking.question(f"Who or what {opening}", answer, "name", 2.6)
    weight = 2.7 if preposition in ("of", "by", "into", "from") else 2.4
    return asking.question(f"What {opening}", answer, "phrase", weight)
