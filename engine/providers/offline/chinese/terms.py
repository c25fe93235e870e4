"""What can be asked for in a Chinese sentence, found without a dictionary."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from engine.providers.offline.facts import Kind, Span, apart

#: Characters that build sentences rather than words; no term holds one.
FUNCTION: Final = frozenset(
    "的了在是和与及或就都而不有也这那其为以被把从到对于们着过之所得地很更最将会能可要由向等并但则如因该此他她它我你您谁吗呢吧"
    "啊哪么个些每各某又还只已曾正便即若虽却且让使给跟同比当后前里内外间中上下时再才刚非常约均来去说"
)
#: Characters no term begins or ends with, although they may stand inside one.
_EDGE: Final = FUNCTION | frozenset(
    "一二三四五六七八九十百千万亿两几多大小新旧主指称叫做作成用于位名种类项次年月日第"
)
_RUN: Final = re.compile(r"[\u3400-\u9fff]+")
_TITLE: Final = re.compile(r"《([^《》]{1,40})》")
_QUOTED: Final = re.compile(r"[“「『]([^“”「」『』，。！？；]{2,16})[”」』]")
_DATE: Final = re.compile(
    r"(?:公元前?)?\d{1,4}年\d{1,2}月(?:\d{1,2}[日号])?|\d{1,2}月\d{1,2}[日号]"
)
_YEAR: Final = re.compile(
    r"公元前?\d{1,4}(?:年|世纪)|(?<!\d)\d{3,4}年(?!代|前|后|间|的历史|多|来)|\d{1,2}世纪(?:\d{2}年代)?"
)
_UNITS: Final = (
    "公里|千米|米|厘米|毫米|公斤|千克|克|吨|人|个|种|年|天|小时|分钟|秒|度|摄氏度|元|美元|座|条|件|项|倍|岁|块|颗|名|次|部"
    "|万|亿|米/秒|公顷|亩|℃|°C"
)
_NUMBER: Final = re.compile(
    r"(?:约|近|超过|大约)?\d[\d,]*(?:\.\d+)?"
    rf"(?:%|％|多?[万亿千百]?(?:平方|立方)?(?:{_UNITS})?)"
)
_COUNT: Final = re.compile(
    r"(?<![第十百千万亿零])([二三四五六七八九十]|十[一二三四五六七八九])(?=[个种类大项部层座条名次位颗])"
)
#: A name ends where a verb or a function character begins.
_NAME_END: Final = "由获发提创出设写是在于和与的了被将把说认为成任担生去逝死及等对从向因以就率建统证用之年月日这该此"
_NAME_PART: Final = rf"(?:(?![{_NAME_END}])[\u3400-\u9fff]){{1,6}}"
_FOREIGN: Final = re.compile(rf"{_NAME_PART}(?:·{_NAME_PART}){{1,3}}")
_LATIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]{1,20}(?:\s[A-Z][A-Za-z0-9-]{1,20}){0,3}")
#: Longest text whose words are counted, in characters; beyond it the recurring words are known.
_COUNTED: Final = 60_000


class Terms:
    """The recurring words of one text."""

    def __init__(self, texts: Sequence[str], known: Iterable[str] = ()) -> None:
        """Take the sentences, and terms that are known from elsewhere (headings, bold, definitions)."""
        self.weights: dict[str, float] = dict(_recurring(texts))
        for term in known:
            if 2 <= len(term) <= 12 and _RUN.fullmatch(term):
                self.weights[term] = max(self.weights.get(term, 0.0), 2.2)
        ranked = sorted(self.weights, key=lambda term: (-len(term), term))[:400]
        self._pattern = re.compile("|".join(map(re.escape, ranked))) if ranked else None

    def spans(self, text: str) -> list[Span]:
        """Every part of a sentence that is worth asking for, without overlaps, in order."""
        return apart(self._candidates(text))

    def _candidates(self, text: str) -> Iterator[Span]:
        yield from _matches(_TITLE, text, "name", 2.4)
        yield from _matches(_QUOTED, text, "term", 2.2, group=1)
        yield from _matches(_DATE, text, "date", 2.2)
        yield from _matches(_YEAR, text, "year", 2.4)
        yield from _matches(_FOREIGN, text, "person", 2.3)
        yield from _matches(_NUMBER, text, "number", 1.9)
        yield from _matches(_COUNT, text, "count", 1.4, group=1)
        yield from _matches(_LATIN, text, "name", 1.7)
        if self._pattern is not None:
            for match in self._pattern.finditer(text):
                yield Span(
                    match.start(), match.end(), "term", 1.0 + 0.5 * self.weights[match.group()]
                )


def _matches(
    pattern: re.Pattern[str], text: str, kind: Kind, weight: float, group: int = 0
) -> Iterator[Span]:
    for match in pattern.finditer(text):
        yield Span(match.start(group), match.end(group), kind, weight)


class _Neighbours:
    """How often each short sequence of characters comes, and what stands beside it."""

    def __init__(self, texts: Sequence[str]) -> None:
        """Count the texts from the beginning up to the limit."""
        self.counts: Counter[str] = Counter()
        self.before: dict[str, set[str]] = {}
        self.after: dict[str, set[str]] = {}
        left = _COUNTED
        for text in texts:
            left -= len(text)
            if left < 0:
                break
            for run in _pieces(text):
                self._count(run)

    def _count(self, run: str) -> None:
        for size in range(2, 7):
            for at in range(len(run) - size + 1):
                word = run[at : at + size]
                self.counts[word] += 1
                self.before.setdefault(word, set()).add(run[at - 1 : at])
                self.after.setdefault(word, set()).add(run[at + size : at + size + 1])

    def is_free(self, word: str) -> bool:
        """Whether a word begins somewhere, and ends somewhere or before many different characters."""
        return "" in self.before[word] and ("" in self.after[word] or len(self.after[word]) > 2)

    def is_part(self, word: str) -> bool:
        """Whether a word only ever comes as part of one longer one."""
        longer = [b + word for b in self.before[word] if b] + [
            word + a for a in self.after[word] if a
        ]
        return any(self.counts[other] == self.counts[word] for other in longer)


def _recurring(texts: Sequence[str]) -> Iterator[tuple[str, float]]:
    """Character sequences that come at least twice and are no part of a longer word."""
    seen = _Neighbours(texts)
    for word, count in seen.counts.items():
        edges = word[0] in _EDGE or word[-1] in _EDGE
        if count >= 2 and not edges and seen.is_free(word) and not seen.is_part(word):
            yield word, min(2.0, 0.3 * count + 0.2 * len(word))


def _pieces(text: str) -> Iterator[str]:
    """The runs of ideographs between function characters."""
    for run in _RUN.findall(text):
        start = 0
        for at, char in enumerate(run):
            if char in FUNCTION:
                if at - start >= 2:
                    yield run[start:at]
                start = at + 1
        if len(run) - start >= 2:
            yield run[start:]
