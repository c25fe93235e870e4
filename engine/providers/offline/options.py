"""Wrong options of a quiz: of the same kind as the right one, from the same text where it has them."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from engine.providers.offline.choice import key_of
from engine.providers.offline.english.words import MONTHS, NUMBER_WORDS, words_of
from engine.providers.offline.facts import GAP, Kind
from engine.providers.offline.stems import fold, stems

#: How many wrong options a question gets where there are enough.
WRONG: Final = 3
#: Terms of one kind that are looked at, the most frequent first.
_MOST: Final = 150
#: Kinds that may stand in for each other, nearest first. Nobody asks "who" and offers a thing.
_NEAR: Final[dict[Kind, tuple[Kind, ...]]] = {
    "person": ("person",),
    "place": ("place", "name"),
    "name": ("name", "place", "term"),
    "term": ("term", "name"),
}
_THIN: Final = words_of("the a an of and in")
_CHINESE_NUMBERS: Final = "二三四五六七八九十"
_NUMBER: Final = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")
_DIGITS: Final = re.compile(r"\d+(?:[.,]\d+)*")
_MONTH: Final = re.compile("|".join(month.lower() for month in MONTHS))
#: What no reader takes for a term: np.mean, max_size, $n$.
_CODE: Final = re.compile(r"^[a-z]\w*\.[a-z]|[_$={}\\<>]|\(\)")
#: How far made-up years, and made-up quantities as factors, are from the right one.
_YEARS_OFF: Final = ((7, -12, 15, -4, 21), (-9, 6, -17, 11, -25))
_FACTORS: Final = ((2.0, 0.5, 1.5, 0.75, 3.0, 0.25), (0.5, 1.5, 2.0, 0.25, 0.75, 3.0))


def seed(*parts: str) -> int:
    """A number that depends on nothing but ``parts``."""
    joined = "\x1f".join(parts).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.sha256(joined).digest()[:6], "big")


class Options:
    """The things of a text that can stand beside a right answer."""

    def __init__(self, things: Iterable[tuple[str, Kind]]) -> None:
        """Take the text's terms with their kinds, as often as they come."""
        found: dict[Kind, Counter[str]] = {}
        spelled: dict[str, str] = {}
        for text, kind in things:
            if "'s " not in text and not _CODE.search(text):
                key = key_of(text)
                spelled.setdefault(key, text)
                found.setdefault(kind, Counter())[key] += 1
        people = found.get("person", Counter())
        self._things: dict[Kind, list[str]] = {
            kind: [
                spelled[key]
                for key, _ in counts.most_common(_MOST)
                if kind == "person" or key not in people
            ]
            for kind, counts in found.items()
        }

    def wrong(self, answer: str, kind: Kind, stem: str, sentence: str) -> list[str]:
        """Up to :data:`WRONG` options that are not the answer, not in the question, and not alike.

        Numbers and dates are made up where the text has too few of their kind.
        """
        chosen: list[str] = []
        shown = fold(f"{stem} {sentence}").replace(GAP, " ")
        for candidate in [*self._ranked(answer, kind, stem), *_made_up(answer, kind)]:
            if len(chosen) == WRONG:
                break
            if not _occurs(candidate, shown) and _differs(candidate, [answer, *chosen]):
                chosen.append(candidate)
        return chosen

    def _ranked(self, answer: str, kind: Kind, stem: str) -> list[str]:
        ranked: list[tuple[float, int, str]] = []
        kinds = _NEAR.get(kind, (kind,))
        for distance, near in enumerate(kinds):
            for text in self._things.get(near, ()):
                if kind not in ("number", "date") or _shape(text) == _shape(answer):
                    unlike = 2.0 * distance - _likeness(text, answer)
                    ranked.append((unlike, seed(stem, text), text))
        return [text for _, _, text in sorted(ranked)]


def _likeness(text: str, answer: str) -> float:
    """How alike two options look: number of words, plural, ending, capital, length."""
    value = 1.0 if text.count(" ") == answer.count(" ") else 0.0
    value += 1.0 if text.endswith("s") == answer.endswith("s") else 0.0
    value += 1.0 if text[-3:].lower() == answer[-3:].lower() else 0.0
    value += 0.5 if text[:1].isupper() == answer[:1].isupper() else 0.0
    return value - abs(len(text) - len(answer)) / 20


def _shape(text: str) -> str:
    """A quantity without its digits: options of one question have one unit."""
    return _MONTH.sub("month", _DIGITS.sub("#", fold(text))).strip()


def _differs(candidate: str, others: Iterable[str]) -> bool:
    """Whether an option means something else than each of ``others``."""
    return not any(_same(candidate, other) for other in others)


def _same(first: str, second: str) -> bool:
    """Whether two options are alike: the same words, or one a part of the other."""
    one, other = fold(first), fold(second)
    if _is_number(first) and _is_number(second):
        # Parts of numbers are no parts: 5 and 15 differ.
        return one == other
    mine, theirs = _own(first), _own(second)
    return not mine or mine <= theirs or theirs <= mine or one in other or other in one


def _own(text: str) -> set[str]:
    found = stems(text)
    return {word for word in found if word not in _THIN} or set(found)


def _is_number(text: str) -> bool:
    return text.strip("约近超过大 $€£")[:1].isdigit() or fold(text) in NUMBER_WORDS


def _occurs(candidate: str, shown: str) -> bool:
    wanted = fold(candidate)
    if wanted not in shown:
        return False
    return not wanted.isascii() or bool(re.search(rf"(?<!\w){re.escape(wanted)}(?!\w)", shown))


def _made_up(answer: str, kind: Kind) -> Iterator[str]:
    if kind == "count":
        yield from _counts(answer)
    elif kind in ("year", "date", "number"):
        yield from _shifted(answer, is_quantity=kind == "number")


def _counts(answer: str) -> Iterator[str]:
    words = list(_CHINESE_NUMBERS) if answer in _CHINESE_NUMBERS else list(NUMBER_WORDS)
    if answer.lower() in words:
        at = words.index(answer.lower())
        near = (at + 1, at - 1, at + 2, at + 3)
        yield from (words[n] for n in near if 0 <= n < len(words))


def _shifted(answer: str, *, is_quantity: bool) -> Iterator[str]:
    """The answer with its main number changed, written in the same way."""
    numbers = list(_NUMBER.finditer(answer))
    if not numbers:
        return
    # The first number of a quantity, the year of a date.
    found = numbers[0] if is_quantity else max(numbers, key=lambda match: len(match.group()))
    turn = seed(answer) % 2
    changes = (
        [_value(found) * factor for factor in _FACTORS[turn]]
        if is_quantity
        else [_value(found) + years for years in _YEARS_OFF[turn]]
    )
    most = 100.0 if "%" in answer and _value(found) <= 100 else 1e15
    for value in changes:
        changed = _written(value, found.group())
        if 0 < value <= most and changed != found.group():
            yield answer[: found.start()] + changed + answer[found.end() :]


def _value(match: re.Match[str]) -> float:
    return float(match.group().replace(",", ""))


def _written(value: float, like: str) -> str:
    """A number with the commas and decimals of another."""
    decimals = len(like.partition(".")[2])
    value = value if decimals else max(1, round(value))
    return f"{value:,.{decimals}f}" if "," in like else f"{value:.{decimals}f}"
