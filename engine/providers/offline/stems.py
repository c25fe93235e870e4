"""Words made comparable: one form for "cell", "Cells" and "cell's"."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from importlib.resources import files
from typing import Final

_WORD: Final = re.compile(r"[^\W_]+(?:['’][^\W_]+)?|[\u3400-\u9fff]")


def _read() -> tuple[tuple[tuple[str, int, str], ...], dict[str, str]]:
    """Endings (with how many letters stay and what takes their place), and irregular forms."""
    text = files(__package__).joinpath("stems.txt").read_text(encoding="utf-8")
    _, endings, irregular = re.split(r"^\[\w+\][^\n]*\n", text, flags=re.MULTILINE)
    rules = (rule.split(":") for rule in endings.split())
    forms = dict(pair.split(":") for pair in irregular.split())
    return tuple((ending, int(kept), instead) for ending, kept, instead in rules), forms


_ENDINGS, _IRREGULAR = _read()


def words(text: str) -> list[str]:
    """The words of ``text`` in lower case, without accents; each ideograph is a word."""
    return _WORD.findall(fold(text))


def fold(text: str) -> str:
    """Lower case, compatibility forms unified, accents taken off."""
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    bare = "".join(char for char in decomposed if not unicodedata.combining(char))
    return unicodedata.normalize("NFC", bare)


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """One form for a word's family; rough on purpose, never shorter than three letters."""
    word = re.sub(r"['’]s?$", "", word)
    known = _IRREGULAR.get(word)
    if known is not None:
        word = known
    if len(word) <= 3 or not word.isascii() or not word.isalpha():
        return word
    # Twice, because "scattering" is "scatter" first, and "scatter" looks like one who scats.
    return _shorter(_shorter(word))


def _shorter(word: str) -> str:
    if len(word) <= 3 or word.endswith(("ss", "us", "xis", "tis")):
        return word
    for ending, kept, instead in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= kept:
            return _tidy(word[: -len(ending)] + instead)
    return _tidy(word)


def _tidy(word: str) -> str:
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "aeiouslz":
        word = word[:-1]
    return word[:-1] if word.endswith("y") and len(word) > 4 else word


def stems(text: str) -> list[str]:
    """The stems of the words of ``text``, in order."""
    return [stem(word) for word in words(text)]
