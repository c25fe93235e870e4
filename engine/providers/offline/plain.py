"""Facts in a language whose grammar is not known: numbers, names and rare words are left out of their sentences."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from engine.providers.offline.english.words import FIRST_NAMES
from engine.providers.offline.facts import GAP, Fact, Kind, Span
from engine.providers.offline.language import common_words
from engine.providers.offline.sentences import Sentence

_WORD: Final = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+(?:[-'’][^\W\d_]+)*")
_KATAKANA: Final = re.compile(r"[\u30a0-\u30ff]{3,}|[\u4e00-\u9fff]{2,6}(?=[はがをにのとで、。])")
_QUOTED: Final = re.compile(r"[「『«„“]([^「」『』«»„“”]{2,30})[」』»”“]")
_UNSPACED: Final = re.compile(
    r"[\u0e00-\u0e7f\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u4e00-\u9fff]"
)


class PlainReader:
    """Reads sentences by what can be seen: digits, capitals, length and frequency of words."""

    def __init__(self, sentences: Sequence[Sentence], title: str = "") -> None:
        """Take the whole text."""
        self._sentences = sentences
        words = [word for s in sentences for word in _WORD.findall(s.text)]
        self._counts = Counter(word.lower() for word in words)
        self._lower = Counter(word for word in words if word.islower())
        # What comes in every other sentence carries no subject; the known ones never do.
        often = max(4, len(sentences) // 3)
        self._thin = common_words() | {
            w for w, n in self._counts.items() if n >= often and len(w) <= 6
        }
        self._bold = sorted({term for s in sentences for term in s.bold})
        inner = [word for s in sentences for word in _WORD.findall(s.text)[1:] if word[0].isalpha()]
        # German writes every noun with a capital: there two in a row are no name.
        self._nouns_are_capital = sum(word[0].isupper() for word in inner) > 0.22 * len(inner)

    def facts(self) -> list[Fact]:
        """Every fact found, in the order of the text."""
        return [fact for sentence in self._sentences for fact in self._gaps(sentence)]

    def terms(self) -> list[tuple[str, Kind]]:
        """Every name, term and number of the text with its kind."""
        return [
            (span.of(s.text), span.kind) for s in self._sentences for span in self._spans(s.text)
        ]

    def _gaps(self, sentence: Sentence) -> Iterator[Fact]:
        if sentence.text.rstrip("”»\"'").endswith(("?", "？", "؟", ";")):
            return
        best = sorted(self._spans(sentence.text), key=lambda span: (-span.weight, span.start))[:3]
        for span in best:
            answer = span.of(sentence.text)
            word = re.compile(
                rf"(?<!\w){re.escape(answer)}(?!\w)"
                if not _UNSPACED.search(answer)
                else re.escape(answer),
                re.I,
            )
            front = word.sub(GAP, sentence.text)
            if (
                GAP not in front
                or front.count(GAP) > 2
                or len(front.replace(GAP, "").strip()) < max(5, len(answer) // 2)
            ):
                continue
            quality = -0.5 if not sentence.ended else 0.0
            yield Fact(sentence, front, answer, span.kind, span.weight + quality, is_cloze=True)

    def _spans(self, text: str) -> list[Span]:
        found: list[Span] = []
        for span in self._candidates(text):
            if not any(span.start < other.end and other.start < span.end for other in found):
                found.append(span)
        return found

    def _candidates(self, text: str) -> Iterator[Span]:
        for match in _QUOTED.finditer(text):
            yield Span(match.start(1), match.end(1), "term", 1.7)
        for term in self._bold:
            at = text.find(term)
            if at >= 0:
                yield Span(at, at + len(term), "term", 2.4)
        if _UNSPACED.search(text):
            for match in _KATAKANA.finditer(text):
                yield Span(match.start(), match.end(), "term", 1.4)
        yield from self._names(text)
        for match in _WORD.finditer(text):
            kind, weight = self._judge(match, text)
            if weight > 0:
                yield Span(match.start(), match.end(), kind, weight)

    def _names(self, text: str) -> Iterator[Span]:
        for match in re.finditer(
            r"[^\W\d_]+(?:[-'’][^\W\d_]+)*(?: [^\W\d_]+(?:[-'’][^\W\d_]+)*)+", text
        ):
            run: list[re.Match[str]] = []
            for word in [*_WORD.finditer(text, match.start(), match.end()), None]:
                if (
                    word is not None
                    and word.start() > 0
                    and word.group()[0].isupper()
                    and word.group().lower() not in self._thin
                ):
                    run.append(word)
                    continue
                named = bool(run) and (
                    not self._nouns_are_capital or run[0].group().lower() in FIRST_NAMES
                )
                if len(run) > 1 and named:
                    yield Span(run[0].start(), run[-1].end(), "name", 2.0)
                run = []

    def _judge(self, match: re.Match[str], text: str) -> tuple[Kind, float]:
        word = match.group()
        if word[0].isdigit():
            year = len(word) == 4 and word.isdigit() and word[0] in "12"
            return ("year", 2.1) if year else ("number", 1.8)
        if word.lower() in self._thin or len(word) < 3 or _UNSPACED.search(word):
            return "term", 0.0
        if self._nouns_are_capital and word[0].isupper() and self._beside_capital(match, text):
            return "name", 0.0
        name = match.start() > 0 and word[0].isupper() and not self._lower[word.lower()]
        if name and not self._nouns_are_capital:
            return "name", 1.7
        cased = unicodedata.category(word[0]) in ("Lu", "Ll")
        if len(word) < (6 if cased else 3):
            return "term", 0.0
        recurring = min(0.6, 0.2 * (self._counts[word.lower()] - 1))
        return "term", 0.6 + min(0.5, len(word) / 30) + recurring

    @staticmethod
    def _beside_capital(match: re.Match[str], text: str) -> bool:
        before = re.search(r"([^\W\d_]+) $", text[max(0, match.start() - 40) : match.start()])
        after = re.match(r" ([^\W\d_]+)", text[match.end() : match.end() + 40])
        first = before is not None and before.start() == 0 and match.start() < 40
        return bool(
            (before and before.group(1)[0].isupper() and not first)
            or (after and after.group(1)[0].isupper())
        )
