"""English verbs of explaining prose: which word is one, in which form, and what the other forms are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from engine.providers.offline.english.words import lines_of, section

Tense = Literal["base", "third", "past", "participle", "gerund"]

_DOUBLING: Final = section("doubling_verbs")
#: Forms that are nouns or adjectives as often; they are verbs only where the neighbours say so.
AMBIGUOUS: Final = section("ambiguous_forms")


@dataclass(frozen=True, slots=True)
class VerbForm:
    """One form of a verb; ``third`` is the third person singular of the present."""

    base: str
    tense: Tense


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb with the forms that questions are made of."""

    base: str
    third: str
    past: str
    participle: str


def _third(base: str) -> str:
    if base == "have":
        return "has"
    if base.endswith(("s", "x", "z", "ch", "sh", "go", "do")):
        return base + "es"
    if base.endswith("y") and base[-2] not in "aeiou":
        return base[:-1] + "ies"
    return base + "s"


def _past(base: str) -> str:
    if base.endswith("e"):
        return base + "d"
    if base.endswith("y") and base[-2] not in "aeiou":
        return base[:-1] + "ied"
    return base + (base[-1] if base in _DOUBLING else "") + "ed"


def _gerund(base: str) -> str:
    if base.endswith("ie"):
        return base[:-2] + "ying"
    if base.endswith("e") and not base.endswith(("ee", "oe", "ye")):
        return base[:-1] + "ing"
    return base + (base[-1] if base in _DOUBLING else "") + "ing"


def _verbs() -> dict[str, Verb]:
    regular = section("regular_verbs")
    found = {base: Verb(base, _third(base), _past(base), _past(base)) for base in regular}
    for line in lines_of("irregular_verbs"):
        base, past, participle = line.split()
        found[base] = Verb(base, _third(base), past, participle)
    return dict(sorted(found.items()))


def _forms(verbs: dict[str, Verb]) -> dict[str, VerbForm]:
    forms: dict[str, VerbForm] = {}
    # Later ones win where spellings meet: "found" is the past of "find" before it is a base.
    for verb in verbs.values():
        forms[verb.base] = VerbForm(verb.base, "base")
    for verb in verbs.values():
        forms[_gerund(verb.base)] = VerbForm(verb.base, "gerund")
        forms[verb.third] = VerbForm(verb.base, "third")
        forms.setdefault(verb.participle, VerbForm(verb.base, "participle"))
    for verb in verbs.values():
        if verb.past != verb.base:
            forms[verb.past] = VerbForm(verb.base, "past")
    return forms


VERBS: Final = _verbs()
FORMS: Final = _forms(VERBS)
_PARTICIPLES: Final = frozenset(verb.participle for verb in VERBS.values())


def is_participle(word: str) -> bool:
    """Whether ``word`` (lower case) can follow "was"."""
    return word in _PARTICIPLES or (word.endswith("ed") and len(word) > 4)
