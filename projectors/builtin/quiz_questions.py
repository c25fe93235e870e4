"""Questions of ``quiz_generation`` as rows of ``quiz_question``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from outbox.base.canonical import canonical_bytes
from outbox.base.db import Base
from outbox.base.types import long_text
from projectors.builtin.rows import OwnedRow, RowProjector, member, owned_table


class QuizQuestion(OwnedRow, Base):
    """One multiple-choice question of a user."""

    __tablename__ = "quiz_question"

    question: Mapped[str] = mapped_column(long_text())
    #: The options as a JSON list of texts, canonical and alike on every database (PC-6).
    options: Mapped[str] = mapped_column(long_text())
    #: Position of the right option, from 0.
    correct_index: Mapped[int] = mapped_column(sa.Integer)
    explanation: Mapped[str | None] = mapped_column(long_text())

    __table_args__ = owned_table("quiz_question")


class QuizQuestionProjector(RowProjector):
    """Reads ``questions[]`` with ``question``, ``options``, ``correct_index`` and what explains it."""

    key = "quiz_questions"
    artifact_type = "quiz_question"
    table = QuizQuestion.__table__  # type: ignore[assignment]

    def items(self, output: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        return [
            {
                "question": member(question, "question"),
                "options": canonical_bytes(member(question, "options")).decode(),
                "correct_index": member(question, "correct_index"),
                "explanation": question.get("explanation"),
                "source": question.get("source_quote"),
            }
            for question in member(output, "questions")
        ]
