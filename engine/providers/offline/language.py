"""Which language a text is in, as far as it decides how the text is read."""

from __future__ import annotations

import re
from typing import Final, Literal

Reading = Literal["en", "zh", "other"]

_HAN: Final = re.compile(r"[\u3400-\u9fff\uf900-\ufaff]")
_KANA: Final = re.compile(r"[\u3040-\u30ff]")
_LETTER: Final = re.compile(r"[^\W\d_]")
_WORD: Final = re.compile(r"[^\W\d_]+")
#: Words that only tell languages apart: the commonest of each.
_COMMON: Final = {
    "en": "the of and to in is are was that it for on as with by from this be which an at or have not their has",
    "de": "der die das und ist von zu den mit im des ein eine nicht sich auf auch als für dem werden wird sind einer",
    "fr": "le la les des et est un une du que qui dans pour par sur au pas avec plus sont il elle ce cette aux",
    "es": "el la los las de que y en un una es del por con para se su al como más lo son fue esta entre",
    "it": "il lo la gli di che e un una per con non è del della sono si da nel dei delle alla anche come",
    "pt": "o a os as de que e em um uma do da para com não por se dos das é no na ao mais como foi",
    "nl": "de het een van en is in op dat te zijn met voor niet aan er die ook als door worden wordt bij uit",
}
_COMMON_SETS: Final = {code: frozenset(text.split()) for code, text in _COMMON.items()}


def reading_of(text: str) -> Reading:
    """How to read ``text``: as English, as Chinese, or by what needs no grammar."""
    sample = text[:20_000]
    letters = len(_LETTER.findall(sample))
    if len(_HAN.findall(sample)) > 0.3 * letters:
        return "other" if len(_KANA.findall(sample)) > 0.1 * letters else "zh"
    words = [word.lower() for word in _WORD.findall(sample)[:2_000]]
    if not words or sum(word.isascii() for word in words) < 0.6 * len(words):
        return "other"
    shares = {
        code: sum(w in known for w in words) / len(words) for code, known in _COMMON_SETS.items()
    }
    best = max(shares, key=lambda code: (shares[code], code == "en"))
    # A few words decide nothing; then English, whose reader also copes with names and numbers.
    return (
        "en"
        if best == "en" or shares[best] < 0.08 or shares["en"] >= 0.8 * shares[best]
        else "other"
    )


def common_words() -> frozenset[str]:
    """The commonest words of the languages that are told apart."""
    return frozenset().union(*_COMMON_SETS.values())
