"""All facts of an English text."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from engine.providers.offline.english.asking import Question
from engine.providers.offline.english.clarity import (
    gap_points_elsewhere,
    points_elsewhere,
    says_nothing,
)
from engine.providers.offline.english.clauses import Clause, parse
from engine.providers.offline.english.gaps import TALK, Said, gaps
from engine.providers.offline.english.glossary import acronyms, entry, meaning_of
from engine.providers.offline.english.pronouns import Antecedent
from engine.providers.offline.english.questions import questions
from engine.providers.offline.english.spans import spans
from engine.providers.offline.english.statements import statement
from engine.providers.offline.english.tokens import Token, tokenize
from engine.providers.offline.english.verbs import FORMS
from engine.providers.offline.english.vocabulary import Vocabulary
from engine.providers.offline.english.words import NOUNS
from engine.providers.offline.facts import Fact, Kind, Span
from engine.providers.offline.sentences import Sentence

#: A question with one of these asks about somebody who is not in it.
_SOMEBODY: Final = re.compile(r"\b(?:he|she|they|him|them|it|this|these)\b", re.I)
_ARTICLE: Final = re.compile(r"^(?:the|an?|any) ", re.I)
#: In a text of more sentences than this, gaps that weigh less than this are not even made.
_MANY: Final = 200
_LEAST: Final = 0.2
#: Words that a question is better without.
_LONG: Final = 22


@dataclass(frozen=True, slots=True)
class _Line:
    """A sentence with what it states, None where it states nothing, and the tokens of that."""

    sentence: Sentence
    said: str | None
    tokens: list[Token]

    @classmethod
    def of(cls, sentence: Sentence) -> _Line:
        said = statement(sentence.text)
        return cls(sentence, said, tokenize(sentence.text if said is None else said))


class EnglishReader:
    """Reads sentences one after the other, remembering what the last one was about."""

    def __init__(self, sentences: Sequence[Sentence], title: str = "") -> None:
        """Take the whole text: what is important in it decides what is asked."""
        self._lines = [_Line.of(sentence) for sentence in sentences]
        self._vocabulary = Vocabulary(sentences, [line.tokens for line in self._lines], title)
        self._spans: dict[int, list[Span]] = {}
        # A long text has enough good gaps; a short one may need its weak ones.
        self._least = _LEAST if len(self._lines) > _MANY else -math.inf

    def facts(self) -> list[Fact]:
        """Every fact found, in the order of the text."""
        found: list[Fact] = []
        before: Antecedent | None = None
        block = -1
        for line in self._lines:
            if line.sentence.block != block:
                before, block = None, line.sentence.block
            facts, before = self._read(line, before)
            found.extend(facts)
        return found

    def terms(self) -> list[tuple[str, Kind]]:
        """Every name, term and quantity of the text with its kind, for wrong options of a quiz."""
        found: list[tuple[str, Kind]] = []
        for line in self._lines:
            glossary = entry(line.sentence.text)
            if glossary is not None:
                meaning = glossary["meaning"]
                marked = spans(meaning, tokenize(meaning), self._vocabulary)
                found.extend((s.of(meaning), s.kind) for s in marked if not _is_act(meaning, s))
            elif line.said is not None:
                marked = [s for s in self._spans_of(line) if not self._is_opening(line, s)]
                found.extend((span.of(line.said), span.kind) for span in marked)
        return found

    def _is_opening(self, line: _Line, span: Span) -> bool:
        """Whether a word is there only because a line begins with it: "Opening the file", "Measure twice"."""
        if span.start > 0 or line.said is None or " " in span.of(line.said):
            return False
        first = line.tokens[0]
        if self._vocabulary.is_proper(first, 0) or first.low in NOUNS:
            return False
        known = self._vocabulary.seen_lower(first.low)
        return first.low in FORMS or not (known or first.low.endswith("s"))

    def _spans_of(self, line: _Line) -> list[Span]:
        order = line.sentence.order
        if order not in self._spans and line.said is not None:
            self._spans[order] = spans(line.said, line.tokens, self._vocabulary)
        return self._spans.get(order, [])

    def _read(self, line: _Line, before: Antecedent | None) -> tuple[list[Fact], Antecedent | None]:
        """The facts of one sentence, and what the next one may point back to."""
        sentence, said = line.sentence, line.said
        meaning = meaning_of(sentence)
        if meaning is not None or said is None:
            return ([meaning] if meaning else []), None
        resolved = before.resolve(said) if before is not None else None
        tokens = tokenize(resolved) if resolved else line.tokens
        clause = parse(resolved or said, tokens, self._vocabulary)
        facts = list(acronyms(sentence))
        if clause is not None and not TALK.search(said):
            asked = questions(clause, self._vocabulary)
            facts += [
                self._asked(sentence, clause, question) for question in asked if _clear(question)
            ]
        left_out = gaps(
            sentence,
            Said(said, line.tokens),
            self._spans_of(line),
            before if resolved else None,
            self._least,
        )
        facts += map(_weighed, left_out)
        if resolved:
            return facts, before
        after = Antecedent.of(clause, self._vocabulary) if clause is not None else None
        return facts, after

    def _asked(self, sentence: Sentence, clause: Clause, question: Question) -> Fact:
        weight = question.weight + 0.5 * min(2.0, self._vocabulary.importance(clause.subject))
        weight -= 0.4 if len(question.text.split()) > _LONG else 0.0
        weight -= 1.2 if _SOMEBODY.search(question.text) else 0.0
        about = _ARTICLE.sub("", clause.subject) if question.kind == "definition" else ""
        return Fact(sentence, question.text, question.answer, question.kind, weight, about=about)


def _clear(question: Question) -> bool:
    """Whether a question and its answer say something, and all of it."""
    empty = says_nothing(question.text, question.answer)
    return not empty and not points_elsewhere(question.text, question.answer)


def _weighed(fact: Fact) -> Fact:
    """A gap in a sentence that leans on another one is worth less."""
    return replace(fact, weight=fact.weight - 1.2) if gap_points_elsewhere(fact.front) else fact


def _is_act(text: str, span: Span) -> bool:
    """Whether a phrase opens its line with what something does: "builds proteins"."""
    form = FORMS.get(text.split()[0].lower())
    return span.start == 0 and form is not None and form.tense == "third"
