"""Flashcards: the most important facts of a text, each asked once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from engine.providers.offline.choice import choose
from engine.providers.offline.language import Reading
from engine.providers.offline.sentences import Sentence
from engine.providers.offline.study import Study, study

_EXPLAIN: Final[dict[Reading, tuple[str, str]]] = {
    "en": (
        "What comes to mind about “{}”?",
        "The text only names it: say what you know, then look it up.",
    ),
    "zh": ("关于“{}”，你知道些什么？", "原文只提到了它：先说出你所知道的，再查证。"),
    "other": ("“{}” = ?", "…"),
}


def make_flashcards(text: str, *, max_cards: int, title: str | None = None) -> dict[str, Any]:
    """The content of a flashcard output: at most ``max_cards`` cards, the most important first.

    Raises :class:`~engine.errors.SourceTextUnusable` where the text holds no word.
    """
    studied = study(text, title)
    chosen = choose(studied.reader.facts(), max_cards)
    cards = [
        {"front": fact.front, "back": fact.answer, "source_quote": fact.sentence.text}
        for fact in chosen
    ]
    return {"cards": cards or list(_plainest(studied))[:max_cards]}


def _plainest(studied: Study) -> Iterator[dict[str, Any]]:
    """Cards for a text in which no single fact was found: its sentences halved, or its words named."""
    halved = [card for card in map(_halved, studied.sentences) if card is not None]
    if halved:
        yield from halved
        return
    front, back = _EXPLAIN[studied.reading]
    for line in studied.lines:
        yield {"front": front.format(line), "back": back, "source_quote": line}


def _halved(sentence: Sentence) -> dict[str, Any] | None:
    """The beginning of a sentence as the cue for its end."""
    parts = re.findall(r"\S+\s*", sentence.text)
    if len(parts) >= 4:
        middle = len(parts) // 2
        begin, end = "".join(parts[:middle]).rstrip(), "".join(parts[middle:]).strip()
    elif len(sentence.text) >= 8 and not sentence.text.isascii():
        middle = len(sentence.text) // 2
        begin, end = sentence.text[:middle], sentence.text[middle:].rstrip("。！.!")
    else:
        return None
    if not all(any(char.isalnum() for char in half) for half in (begin, end)):
        return None
    return {"front": f"{begin} …", "back": f"… {end}", "source_quote": sentence.text}
