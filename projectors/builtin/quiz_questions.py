"""Questions of ``quiz_generation`` as rows of ``quiz_question``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from outbox.base.canonical import canonical_bytes
from outbox.base.tables import column
from outbox.base.types import long_text
from projectors.builtin.rows import RowProjector, member, owned_table

#: One multiple-choice question of a user.
QUIZ_QUESTION = owned_table(
    "quiz_question",
    column("question", long_text()),
    # The options as a JSON list of texts, canonical and alike on every database (PC-6).
    column("options", long_text()),
    # Position of the right option, from 0.
    column("correct_index", sa.Integer),
    column("explanation", long_text(), nullable=True),
)


class QuizQuestionProjector(RowProjector):
    """Reads ``questions[]`` with ``question``, ``options``, ``correct_index`` and what explains it."""

    key = "quiz_questions"
    artifact_type = "quiz_question"
    table = QUIZ_QUESTION

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
