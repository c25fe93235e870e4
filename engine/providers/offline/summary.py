"""What a text says in a few of its own sentences, for requests that ask for plain text."""

from __future__ import annotations

from engine.providers.offline.study import study

#: Sentences an extract has at most.
SENTENCES = 3


def extract(text: str) -> str:
    """The sentences of ``text`` that say most, in their order; the text itself where it has no more than those.

    Raises :class:`~engine.errors.SourceTextUnusable` where the text holds no word.
    """
    studied = study(text)
    if len(studied.sentences) <= SENTENCES:
        return (
            " ".join(sentence.text for sentence in studied.sentences)
            or " ".join(studied.lines)[:2_000]
        )
    best: dict[int, float] = {}
    for fact in studied.reader.facts():
        order = fact.sentence.order
        best[order] = max(best.get(order, 0.0), fact.weight)
    ranked = sorted(range(len(studied.sentences)), key=lambda order: (-best.get(order, 0.0), order))
    return " ".join(studied.sentences[order].text for order in sorted(ranked[:SENTENCES]))
