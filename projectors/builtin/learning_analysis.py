"""The judgement of ``active_recall`` as a row of ``learning_analysis``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from outbox.base.canonical import canonical_bytes
from outbox.base.tables import column
from outbox.base.types import ascii_text, long_text
from projectors.builtin.rows import RowProjector, member, owned_table

#: How much of a reference a user's answer held; one row per job, so the ordinal is 0.
LEARNING_ANALYSIS = owned_table(
    "learning_analysis",
    column("verdict", ascii_text(16)),
    # 0 to 1.
    column("score", sa.Double()),
    # Key points as JSON lists of texts, canonical and alike on every database (PC-6).
    column("matched", long_text()),
    column("missing", long_text()),
    column("feedback", long_text()),
)


class LearningAnalysisProjector(RowProjector):
    """Reads ``verdict``, ``score``, ``matched``, ``missing`` and ``feedback``."""

    key = "learning_analysis"
    artifact_type = "learning_analysis"
    table = LEARNING_ANALYSIS

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
