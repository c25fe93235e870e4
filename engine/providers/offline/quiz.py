"""Multiple-choice questions from the facts of a text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from engine.errors import SourceTextUnusable
from engine.providers.offline.choice import best_first, choose
from engine.providers.offline.drafts import Draft, Wording, draft, kind_of
from engine.providers.offline.facts import Fact, Kind
from engine.providers.offline.language import Reading
from engine.providers.offline.options import Options, seed
from engine.providers.offline.study import Study, study

#: Facts that are tried for each question wanted: not every one finds options.
_TRIED: Final = 8


@dataclass(frozen=True, slots=True)
class _Phrases:
    wording: Wording
    because: str
    judge: str
    right: str
    wrong: str


_PHRASES: Final[dict[Reading, _Phrases]] = {
    "en": _Phrases(
        Wording(
            "Which answer fills the gap? {}",
            "Which term fits this description: “{}”?",
            "Who fits this description: “{}”?",
            small=True,
        ),
        "The text says: “{}”",
        "True or false? {}",
        "True",
        "False",
    ),
    "zh": _Phrases(
        Wording(
            "下列哪一项应填入空白处？{}",
            "下列哪一项符合这一描述：“{}”？",
            "下列哪一位符合这一描述：“{}”？",
            small=False,
        ),
        "原文：“{}”",
        "判断正误：{}",
        "正确",
        "错误",
    ),
    # Of other languages only their own words are used.
    "other": _Phrases(Wording("{}", "“{}” = ?", "“{}” = ?", small=False), "“{}”", "{}", "✓", "✗"),
}


def make_quiz(text: str, *, max_questions: int, title: str | None = None) -> dict[str, Any]:
    """The content of a quiz output: at most ``max_questions`` questions, the most important first.

    Raises :class:`~engine.errors.SourceTextUnusable` where the text holds nothing that can be asked.
    """
    studied = study(text, title)
    facts = studied.reader.facts()
    options = Options(_things(studied, facts))
    wording = _PHRASES[studied.reading].wording
    tried = islice(best_first(facts), _TRIED * max_questions + 40)
    drafts = [one for fact in tried if (one := draft(fact, facts, options, wording)) is not None]
    made = {(one.stem, one.answer): one for one in drafts}
    chosen = choose((one.as_fact() for one in drafts), max_questions)
    start = seed(text[:2_000]) % 24
    questions = [
        _question(made[fact.front, fact.answer], number, start, studied.reading)
        for number, fact in enumerate(chosen)
    ]
    return {"questions": questions or list(_judgements(studied))[:max_questions]}


def _things(studied: Study, facts: Sequence[Fact]) -> list[tuple[str, Kind]]:
    people = [(fact.answer, fact.kind) for fact in facts if fact.kind == "person"]
    defined = [(fact.about, kind_of(fact)) for fact in facts if fact.about]
    return [*studied.reader.terms(), *people, *defined]


def _question(one: Draft, number: int, start: int, reading: Reading) -> dict[str, Any]:
    wrong = sorted(one.wrong, key=lambda text: seed(one.stem, text))
    # Every position in turn, from a beginning and with a step that depend on the text alone.
    position = (start + number * (1 + 2 * (start % 2))) % (len(wrong) + 1)
    options = [*wrong[:position], one.answer, *wrong[position:]]
    return {
        "question": one.stem,
        "options": [_shown(option) for option in options],
        "correct_index": position,
        "explanation": _PHRASES[reading].because.format(one.fact.sentence.text),
        "source_quote": one.fact.sentence.text,
    }


def _shown(option: str) -> str:
    """Options begin alike, so that a capital letter tells nothing."""
    return option[0].upper() + option[1:] if re.match(r"[a-z]{2,}\b", option) else option


def _judgements(studied: Study) -> Iterator[dict[str, Any]]:
    """True-or-false questions, for a text with too few things of a kind to choose among."""
    phrases = _PHRASES[studied.reading]
    statements = [sentence for sentence in studied.sentences if sentence.is_statement]
    if not statements:
        raise SourceTextUnusable("The text holds no statement to ask about.")
    for sentence in statements:
        yield {
            "question": phrases.judge.format(sentence.text),
            "options": [phrases.right, phrases.wrong],
            "correct_index": 0,
            "explanation": phrases.because.format(sentence.text),
            "source_quote": sentence.text,
        }
