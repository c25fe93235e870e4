"""Cards of ``flashcard_generation`` as rows of ``flashcard``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy.orm import Mapped, mapped_column

from outbox.base.db import Base
from outbox.base.types import long_text
from projectors.builtin.rows import OwnedRow, RowProjector, member, owned_table


class Flashcard(OwnedRow, Base):
    """One card of a user."""

    __tablename__ = "flashcard"

    front: Mapped[str] = mapped_column(long_text())
    back: Mapped[str] = mapped_column(long_text())

    __table_args__ = owned_table("flashcard")


class FlashcardProjector(RowProjector):
    """Reads ``cards[]`` with ``front``, ``back`` and perhaps ``source_quote``."""

    key = "flashcards"
    artifact_type = "flashcard"
    table = Flashcard.__table__  # type: ignore[assignment]

    def items(self, output: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        return [
            {
                "front": member(card, "front"),
                "back": member(card, "back"),
                "source": card.get("source_quote"),
            }
            for card in member(output, "cards")
        ]
