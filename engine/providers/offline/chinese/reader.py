"""All facts of a Chinese text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from engine.providers.offline.chinese.questions import defined_in, question_of
from engine.providers.offline.chinese.terms import Terms
from engine.providers.offline.facts import GAP, Fact, Kind, Span
from engine.providers.offline.sentences import Sentence

_END: Final = re.compile(r"[。！？!?.…；;]+[”’」』）)]*$")
_ASKS: Final = re.compile(r"[？?][”’」』）)]*$")
_LINK: Final = re.compile(
    r"^(?:因此|所以|然而|但是|不过|此外|另外|例如|比如|同时|其中|总之|首先|其次|最后|而且|并且|于是|可见"
    r"|实际上|事实上|换句话说|也就是说|一般来说|通常)，?"
)
_POINTING: Final = re.compile(
    r"^(?:这|那|它|他|她|其|此|该|我|你|您|咱|上述|以上|以下|前者|后者|有些|有的|一些|许多|大家|人们)"
)
_MEANING: Final = re.compile(r"^(?P<x>[^：:，。；！？]{1,20})[：:]\s*(?P<y>[^：:]{4,200})$")
#: How many gaps of one sentence are offered for choice.
_GAPS: Final = 3
#: A number beside one of these is half of a range.
_GLUE: Final = tuple("-–—~～/")
_HINTS: Final[dict[Kind, str]] = {"year": "（哪一年）", "date": "（哪一天）"}


class ChineseReader:
    """Reads sentences by their patterns; where none fits, a term, a number or a name is left out."""

    def __init__(self, sentences: Sequence[Sentence], title: str = "") -> None:
        """Take the whole text."""
        self._sentences = sentences
        known = [
            title,
            *(s.heading for s in sentences),
            *(term for s in sentences for term in s.bold),
        ]
        said = [bare(sentence.text) for sentence in sentences]
        known += [
            found for text in said if not _POINTING.match(text) and (found := defined_in(text))
        ]
        self._terms = Terms([sentence.text for sentence in sentences], known)

    def facts(self) -> list[Fact]:
        """Every fact found, in the order of the text."""
        return [fact for sentence in self._sentences for fact in self._read(sentence)]

    def terms(self) -> list[tuple[str, Kind]]:
        """Every name, term and quantity of the text with its kind, for wrong options of a quiz."""
        return [
            (span.of(s.text), span.kind)
            for s in self._sentences
            for span in self._terms.spans(s.text)
        ]

    def _read(self, sentence: Sentence) -> Iterator[Fact]:
        if _ASKS.search(sentence.text):
            return
        said = bare(sentence.text)
        pointing = bool(_POINTING.match(said))
        if not pointing:
            yield from self._asked(sentence, said)
        yield from self._gaps(sentence, said, quality=-1.2 if pointing else 0.0)

    def _asked(self, sentence: Sentence, said: str) -> Iterator[Fact]:
        glossary = _MEANING.match(said)
        if glossary:
            term = glossary["x"]
            yield Fact(
                sentence, f"“{term}”是什么意思？", glossary["y"], "definition", 3.0, about=term
            )
            return
        asked = question_of(said)
        if asked is not None:
            known = self._terms.weights.get(re.split(r"是|指|位于|由|，", said)[0], 0.0)
            weight = asked.weight + 0.3 * known
            yield Fact(sentence, asked.text, asked.answer, asked.kind, weight, about=asked.about)

    def _gaps(self, sentence: Sentence, said: str, *, quality: float) -> Iterator[Fact]:
        if len(said) < 8:
            return
        quality -= 0.6 if len(said) > 90 else 0.0
        quality -= 0.0 if sentence.ended else 0.5
        spans = sorted(self._terms.spans(said), key=lambda span: (-span.weight, span.start))
        for span in spans[:_GAPS]:
            front = _gap(said, span)
            if front is not None:
                weight = 0.75 * span.weight + quality
                yield Fact(sentence, f"{front}。", span.of(said), span.kind, weight, is_cloze=True)


def _gap(said: str, span: Span) -> str | None:
    answer = span.of(said)
    if said[span.end : span.end + 1] in _GLUE or said[max(0, span.start - 1) : span.start] in _GLUE:
        return None
    front = said[: span.start].replace(answer, GAP) + GAP + said[span.end :].replace(answer, GAP)
    if front.count(GAP) > 2 or len(front.replace(GAP, "")) < 5:
        return None
    hint = "" if answer.endswith("世纪") else _HINTS.get(span.kind, "")
    return front.replace(GAP, GAP + hint, 1)


def bare(text: str) -> str:
    """A sentence without an opening that ties it to others, and without its full stop."""
    return _LINK.sub("", _END.sub("", text.strip())).strip()
