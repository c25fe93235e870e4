"""Sentences with a gap where the answer was."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from engine.providers.offline.english.pronouns import Antecedent
from engine.providers.offline.english.tokens import Token, is_verb
from engine.providers.offline.english.words import STOP_WORDS, section
from engine.providers.offline.facts import GAP, Fact, Span
from engine.providers.offline.sentences import Sentence
from engine.providers.offline.stems import stems

_UNCLEAR: Final = re.compile(rf"^(?:{'|'.join(sorted(section('unclear_openers')))})\b", re.I)
_ELSEWHERE: Final = re.compile(
    r"\b(?:above|below|following|figure|table|chapter|section|previously|aforementioned"
    r"|this article|latter|former)\b",
    re.I,
)
TALK: Final = re.compile(r"\b(?:I|we|you|our|my|your|me|us|let's)\b")
_LISTED_AFTER: Final = re.compile(r"(?:,| and| or)\s")
_LISTED_BEFORE: Final = re.compile(r"(?:,|\band|\bor)\s$")
#: A word beside one of these is a part of something: Na+, a/b, x=1.
_GLUE: Final = tuple("+-−–/=^_*<>|~°")
#: "a" or "an" before the gap would tell how the answer begins.
_ARTICLE: Final = re.compile(rf"\b([Aa])n? {GAP}")
#: How many gaps of one sentence are offered for choice.
_MOST: Final = 4
#: A gap weighs less than a question made of the same words.
_SHARE: Final = 0.75


@dataclass(frozen=True, slots=True)
class Said:
    """A statement with its tokens."""

    text: str
    tokens: list[Token]


def gaps(
    sentence: Sentence, said: Said, spans: Sequence[Span], before: Antecedent | None, least: float
) -> Iterator[Fact]:
    """The best gaps of a statement that weigh at least ``least``.

    ``before`` is what the first word of the statement stands for, where that is known.
    """
    quality = _quality(sentence, said, resolved=before is not None)
    ranked = sorted(spans, key=lambda span: -_weight(span, said.text))
    for span in ranked[:_MOST]:
        weight = _SHARE * _weight(span, said.text) + quality
        front = gap(said.text, span) if weight >= least else None
        if front is not None and before is not None:
            front = _with_owner(front, before)
        if front is not None:
            ended = front if front[-1:] in ".!" else f"{front}."
            answer = span.of(said.text)
            yield Fact(sentence, ended, answer, span.kind, weight, is_cloze=True)


def _weight(span: Span, text: str) -> float:
    before, after = text[: span.start], text[span.end :]
    value = span.weight - (0.3 if span.start == 0 else 0.0)
    # One item of a list can rarely be known; a bracket mostly repeats what stands before it.
    value -= 0.4 if _LISTED_AFTER.match(after) or _LISTED_BEFORE.search(before) else 0.0
    return value - (0.6 if before.count("(") > before.count(")") else 0.0)


def gap(text: str, span: Span) -> str | None:
    """``text`` with gaps for the span; None where the rest would give it away or be too little."""
    if (
        text[span.end : span.end + 1] in ("(", *_GLUE)
        or text[max(0, span.start - 1) : span.start] in _GLUE
    ):
        return None
    answer = span.of(text)
    before, after = text[: span.start], text[span.end :]
    low = answer.lower()
    if low in before.lower() or low in after.lower():
        word = re.compile(rf"(?<![\w-]){re.escape(answer)}(?![\w-])", re.I)
        before, after = word.sub(GAP, before), word.sub(GAP, after)
    front = f"{before}{GAP}{after}"
    front = _ARTICLE.sub(rf"\1(n) {GAP}", front)
    rest = [word for word in stems(front.replace(GAP, " ")) if word not in STOP_WORDS]
    own = {word for word in stems(answer) if word not in STOP_WORDS and not word.isdigit()}
    if own & set(rest) or len(rest) < 3 or front.count(GAP) > 2:
        return None
    return front.replace(GAP, f"{GAP} (year)", 1) if span.kind == "year" else front


def _with_owner(front: str, before: Antecedent) -> str | None:
    """The first word replaced by what it stands for, in brackets: it is not in the text there."""
    opener = re.match(r"\w+", front)
    resolved = before.resolve(front)
    if opener is None or resolved is None:
        return None
    rest = front[opener.end() :]
    return f"[{resolved[: len(resolved) - len(rest)]}]{rest}"


def _quality(sentence: Sentence, said: Said, *, resolved: bool) -> float:
    """How well a sentence stands alone; 0 is best."""
    text, tokens = said.text, said.tokens
    size = len(text.split())
    faults = (
        (1.8, not resolved and _UNCLEAR.match(text)),
        (0.9, _ELSEWHERE.search(text)),
        (0.9, TALK.search(text)),
        (0.7, not sentence.ended),
        (0.8, size < 6),
        (0.9, not any(is_verb(tokens, at) for at in range(len(tokens)))),
        (0.5, size > 32),
        (0.3, resolved),
        (0.5, re.search(r"[\"“”]", text)),
    )
    return -sum(cost for cost, found in faults if found)
