"""The judgement of ``active_recall`` as a row of ``learning_analysis``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from outbox.base.canonical import canonical_bytes
from outbox.base.db import Base
from outbox.base.types import ascii_text, long_text
from projectors.builtin.rows import OwnedRow, RowProjector, member, owned_table


class LearningAnalysis(OwnedRow, Base):
    """How much of a reference a user's answer held; one row per job, so the ordinal is 0."""

    __tablename__ = "learning_analysis"

    verdict: Mapped[str] = mapped_column(ascii_text(16))
    #: 0 to 1.
    score: Mapped[float] = mapped_column(sa.Double())
    #: Key points as JSON lists of texts, canonical and alike on every database (PC-6).
    matched: Mapped[str] = mapped_column(long_text())
    missing: Mapped[str] = mapped_column(long_text())
    feedback: Mapped[str] = mapped_column(long_text())

    __table_args__ = owned_table("learning_analysis")


class LearningAnalysisProjector(RowProjector):
    """Reads ``verdict``, ``score``, ``matched``, ``missing`` and ``feedback``."""

    key = "learning_analysis"
    artifact_type = "learning_analysis"
    table = LearningAnalysis.__table__  # type: ignore[assignment]

    def items(self, output: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        return [
            {
                "verdict": member(output, "verdict"),
                "score": member(output, "score"),
                "matched": canonical_bytes(member(output, "matched")).decode(),
                "missing": canonical_bytes(member(output, "missing")).decode(),
                "feedback": member(output, "feedback"),
                "source": output.get("source_quote"),
            }
        ]
