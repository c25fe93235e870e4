"""Judges an answer from memory against a reference, by the words that carry meaning."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from engine.providers.offline.english.tokens import is_adverb
from engine.providers.offline.english.verbs import AMBIGUOUS, FORMS
from engine.providers.offline.english.words import (
    GENERIC,
    NOUNS,
    NUMBER_WORDS,
    STOP_WORDS,
    words_of,
)
from engine.providers.offline.language import reading_of
from engine.providers.offline.markup import read_blocks
from engine.providers.offline.sentences import split
from engine.providers.offline.stems import fold, stem

#: From here on an answer is correct, or partly correct.
CORRECT: Final = 0.65
PARTIAL: Final = 0.3
#: A longer reference is a text to look in: only its sentences nearest to the question count, in characters.
LONG: Final = 700
_MOST_POINTS: Final = 20
#: The weight of what the question says already.
_SAID: Final = 0.15

_WORD: Final = re.compile(
    r"\d+(?:[.,]\d+)*|[^\W\d_\u3400-\u9fff]+(?:['’-][^\W\d_\u3400-\u9fff]+)*|[\u3400-\u9fff]+"
)
_HAN: Final = re.compile(r"[\u3400-\u9fff]")
_HAN_BREAK: Final = re.compile(
    r"[的了在是和与及或就都而也这那其为以被把从到对于们着过之所得地将会由向等并但则如因该此它他她我你不]"
)
_NOT: Final = re.compile(
    r"\b(?:not|no|never|none|nor|cannot|without|\w+n['’]t)\b|不|没有|并非|无法", re.I
)
_INSTEAD: Final = re.compile(r"\b(?:but|rather|instead)\b|而是|而非", re.I)
_GIVES_UP: Final = re.compile(
    r"^\W*(?:i (?:do not|don['’]?t|dont) (?:know|remember|recall)|(?:i have )?no (?:idea|clue)|idk"
    r"|dunno|not sure|i forgot|\?+|不知道|不清楚|忘了|不记得)\b.{0,40}$",
    re.I,
)
_UNIT_NAMES: Final = """
km kilometre kilometres kilometer kilometers
m metre metres meter meters
cm centimetre centimetres centimeter centimeters
mm millimetre millimetres millimeter millimeters
kg kilogram kilograms kilo kilos
g gram grams
s sec second seconds
min minute minutes
h hour hours hr hrs
l litre litres liter liters
mi mile miles
"""
_UNITS: Final = {
    name: line.split()[0] for line in _UNIT_NAMES.strip().splitlines() for name in line.split()
}
_PLAIN_ANSWERS: Final = words_of("yes no true false right wrong correct incorrect")


@dataclass(frozen=True, slots=True)
class _Point:
    """A few words of the reference that have to be in the answer."""

    text: str
    keys: tuple[str, ...]
    words: tuple[str, ...]
    weight: float

    @property
    def is_name(self) -> bool:
        """Whether it is a name of several words."""
        return len(self.keys) > 1 and all(word[:1].isupper() for word in self.text.split())


def judge_answer(
    *, question: str, reference: str, answer: str, language: str | None = None
) -> dict[str, Any]:
    """The content of an active recall output. Never fails: any three texts have a judgement."""
    chinese = (language or "").lower().startswith(("zh", "chin", "中")) or (
        not language and reading_of(reference) == "zh"
    )
    relevant = _relevant(reference, question)
    points = _points(relevant, question)
    given = _keys(answer)
    if _GIVES_UP.match(answer.strip()) or not (given or answer.strip()):
        return _judgement([], points, 0.0, chinese, denied=False)
    if not points:
        # A reference of words that carry nothing: the same words are the only right ones.
        same = 1.0 if _bare(answer) == _bare(reference) else 0.0
        return _judgement([], [], same, chinese, denied=False)
    written = _plain(answer)
    shares = [(point, _share(point, given, written)) for point in points]
    total = sum(point.weight for point in points)
    score = sum(point.weight * share for point, share in shares) / total
    denied = _denies(relevant) != _denies(answer) and not _INSTEAD.search(answer)
    score = score * 0.5 if denied else score
    matched = [point for point, share in shares if share >= 0.6]
    missing = [point for point, share in shares if share < 0.6]
    return _judgement(matched, missing, score, chinese, denied=denied)


def _relevant(reference: str, question: str) -> str:
    """The reference, or the sentences of it that answer the question."""
    plain = " ".join(block.text for block in read_blocks(reference)) or reference
    if len(plain) <= LONG:
        return plain
    asked = set(_keys(question))
    sentences = list(split(plain))
    near = [len(asked & set(_keys(sentence))) for sentence in sentences]
    ranked = sorted(range(len(sentences)), key=lambda n: (-near[n], n))
    best = sorted(n for n in ranked[:3] if 2 * near[n] >= near[ranked[0]])
    return " ".join(sentences[n] for n in best)[: 2 * LONG]


def _points(text: str, question: str) -> list[_Point]:
    asked = set(_keys(question))
    aside = " ".join(re.findall(r"[(（]([^()（）]*)[)）]", text))
    found: dict[tuple[str, ...], _Point] = {}
    for phrase in _phrases(text):
        keys = tuple(dict.fromkeys(_keys(phrase)))
        if keys and keys not in found:
            found[keys] = _Point(
                phrase,
                keys,
                tuple(_plain(phrase)),
                _weight(phrase, keys, asked, bracketed=phrase in aside),
            )
    points = list(found.values())
    if any(point.weight >= 1 for point in points):
        points = [point for point in points if point.weight > _SAID]
    return (
        sorted(points, key=lambda point: -point.weight)[:_MOST_POINTS]
        if len(points) > _MOST_POINTS
        else points
    )


def _weight(phrase: str, keys: Sequence[str], asked: set[str], *, bracketed: bool) -> float:
    if bracketed:
        return 0.35
    if all(key in asked for key in keys):
        # What the question says already shows nothing.
        return _SAID
    low = phrase.lower()
    if (low in FORMS and low not in NOUNS) or low in GENERIC:
        # Which verb it was may be said in many ways.
        return 0.35
    return 1.4 if any(key[0].isdigit() for key in keys) else 1.0


def _phrases(text: str) -> Iterator[str]:
    """Runs of words that carry meaning, between those that do not."""
    run: list[re.Match[str]] = []
    for match in [*_WORD.finditer(text), None]:
        joined = (
            run and match is not None and text[run[-1].end() : match.start()] in (" ", "-", " ")
        )
        if match is not None and _HAN.match(match.group()):
            yield from _flush(run, text)
            run = []
            yield from (
                part for part in _HAN_BREAK.split(match.group()) if len(part) >= 2 or part.isdigit()
            )
        elif (
            match is not None
            and _joins(match.group(), run)
            and (joined or not run)
            and len(run) < 3
        ):
            run.append(match)
        else:
            yield from _flush(run, text)
            run = [match] if match is not None and _carries(match.group()) else []


def _joins(word: str, run: Sequence[re.Match[str]]) -> bool:
    """Whether a word may stand in one phrase with those before it; a verb stands alone."""
    low = word.lower()
    if not _carries(word):
        return False
    acts = low in FORMS and low not in NOUNS and low not in AMBIGUOUS
    after_act = (
        bool(run)
        and run[-1].group().lower() in FORMS
        and run[-1].group().lower() not in AMBIGUOUS | NOUNS
    )
    return not run or not (acts or after_act)


def _flush(run: Sequence[re.Match[str]], text: str) -> Iterator[str]:
    if run:
        yield text[run[0].start() : run[-1].end()]


def _carries(word: str) -> bool:
    low = word.lower().replace("’", "'")
    return low in NUMBER_WORDS or (low not in STOP_WORDS and not is_adverb(low))


def _keys(text: str) -> list[str]:
    """Words in comparable form; numbers by value, Chinese by pairs of characters."""
    keys: list[str] = []
    for match in _WORD.finditer(fold(text)):
        word = match.group()
        if _HAN.match(word):
            keys += [word[at : at + 2] for at in range(len(word) - 1)] or [word]
        elif word[0].isdigit():
            keys.append(
                word.replace(",", "").rstrip("0").rstrip(".")
                if "." in word
                else word.replace(",", "")
            )
        elif word in _UNITS:
            keys.append(_UNITS[word])
        elif word in NUMBER_WORDS:
            keys.append(str(NUMBER_WORDS[word]))
        elif _carries(word) or word in _PLAIN_ANSWERS:
            keys += [stem(part) for part in word.split("-") if part]
    return keys


def _plain(text: str) -> list[str]:
    """The words as they are written, for slips of the pen."""
    return [word for word in re.findall(r"[^\W\d_]+", fold(text)) if word not in STOP_WORDS]


def _share(point: _Point, given: Sequence[str], written: Sequence[str]) -> float:
    """How much of a point the answer contains."""
    known = set(given)
    if any(key[0].isdigit() for key in point.keys) and any(
        key[0].isdigit() and key in known for key in point.keys
    ):
        return 1.0
    slips = {stem(word) for word in point.words if any(_misspelt(word, other) for other in written)}
    hits = [key in known or key in slips for key in point.keys]
    if point.is_name:
        # The last name will do; the first name alone may be anybody's.
        return 1.0 if hits[-1] else 0.2 * any(hits)
    return sum(hits) / len(hits)


def _misspelt(wanted: str, written: str) -> bool:
    """Whether two words differ by one slip: letters swapped, one too many or too few, or another vowel."""
    if (
        len(wanted) < 5
        or abs(len(wanted) - len(written)) > 1
        or wanted[0] != written[0]
        or not wanted.isalpha()
    ):
        return False
    if len(wanted) == len(written):
        differing = [n for n, (a, b) in enumerate(zip(wanted, written, strict=True)) if a != b]
        if len(differing) == 1:
            return wanted[differing[0]] in "aeiouy" and written[differing[0]] in "aeiouy"
        first, second = (differing[0], differing[-1]) if len(differing) == 2 else (0, 0)
        return (
            second == first + 1
            and wanted[first] == written[second]
            and wanted[second] == written[first]
        )
    longer, shorter = (wanted, written) if len(wanted) > len(written) else (written, wanted)
    return any(longer[:n] + longer[n + 1 :] == shorter for n in range(len(longer)))


def _denies(text: str) -> bool:
    return bool(_NOT.search(text))


def _bare(text: str) -> str:
    return " ".join(re.findall(r"\w+", fold(text)))


def _judgement(
    matched: Sequence[_Point],
    missing: Sequence[_Point],
    score: float,
    chinese: bool,
    *,
    denied: bool,
) -> dict[str, Any]:
    score = round(min(1.0, max(0.0, score)), 2)
    verdict = "correct" if score >= CORRECT else "partial" if score >= PARTIAL else "incorrect"
    if verdict == "correct" and denied:
        verdict = "partial"
    had, lacked = [_short(p.text) for p in matched], [_short(p.text) for p in missing]
    feedback = (_chinese_feedback if chinese else _english_feedback)(verdict, had, lacked, denied)
    return {
        "matched": had,
        "missing": lacked,
        "verdict": verdict,
        "score": score,
        "feedback": feedback,
    }


def _short(text: str) -> str:
    return text if len(text) <= 120 else f"{text[:117]}…"


def _english_feedback(verdict: str, had: Sequence[str], lacked: Sequence[str], denied: bool) -> str:
    parts = [{"correct": "Correct.", "partial": "Partly right.", "incorrect": "Not yet."}[verdict]]
    if had:
        parts.append(f"You have: {', '.join(had[:5])}.")
    if lacked:
        parts.append(
            f"{'Only missing' if verdict == 'correct' else 'Still missing'}: {', '.join(lacked[:5])}."
        )
    if denied:
        parts.append("Your answer and the reference disagree about a “not”: check that.")
    if verdict != "correct":
        parts.append("Read the reference again and try once more in your own words.")
    return " ".join(parts)


def _chinese_feedback(verdict: str, had: Sequence[str], lacked: Sequence[str], denied: bool) -> str:
    parts = [{"correct": "回答正确。", "partial": "部分正确。", "incorrect": "还不对。"}[verdict]]
    if had:
        parts.append(f"你答到了：{'、'.join(had[:5])}。")
    if lacked:
        parts.append(f"还缺少：{'、'.join(lacked[:5])}。")
    if denied:
        parts.append("你的回答与参考答案在肯定与否定上不一致，请核对。")
    if verdict != "correct":
        parts.append("请重读参考答案，再用自己的话回答一次。")
    return "".join(parts)
