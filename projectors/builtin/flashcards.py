"""Cards of ``flashcard_generation`` as rows of ``flashcard``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from outbox.base.tables import column
from outbox.base.types import long_text
from projectors.builtin.rows import RowProjector, member, owned_table

#: One card of a user.
FLASHCARD = owned_table(
    "flashcard",
    column("front", long_text()),
    column("back", long_text()),
)


class FlashcardProjector(RowProjector):
    """Reads ``cards[]`` with ``front``, ``back`` and perhaps ``source_quote``."""

    key = "flashcards"
    artifact_type = "flashcard"
    table = FLASHCARD

    def items(self, output: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        return [
            {
                "front": member(card, "front"),
                "back": member(card, "back"),
                "source": card.get("source_quote"),
            }
            for card in member(output, "cards")
        ]
