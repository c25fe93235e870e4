"""Jobs and outputs to project."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel
from sqlalchemy.orm import Session

from outbox.base.ids import new_id
from projectors import ArtifactRef
from registry.catalog.active_recall import ActiveRecallOutput
from registry.catalog.flashcard_generation import FlashcardOutput
from registry.catalog.quiz_generation import QuizOutput
from registry.job import JobView, LifecycleStatus

MOMENT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


def a_job(**changes: Any) -> JobView:
    """A running job of its own."""
    given: dict[str, Any] = {
        "id": new_id(),
        "user_id": "ann",
        "job_type": "flashcard_generation",
        "target_type": "document",
        "target_id": "d-1",
        "queue_name": "ai-background",
        "priority": 50,
        "lifecycle_status": LifecycleStatus.RUNNING,
        "max_attempts": 3,
        "credential_mode": "platform_key",
        "schema_version": "1",
        "output_schema_version": "1",
        "available_at": MOMENT,
        "created_at": MOMENT,
    }
    zeros: dict[str, Any] = dict.fromkeys(("progress", "attempt_count", "epoch", "delivery_no"), 0)
    none: dict[str, Any] = dict.fromkeys(
        set(JobView.__dataclass_fields__) - given.keys() - zeros.keys()
    )
    return JobView(**(none | zeros | given | changes))


CARDS = FlashcardOutput.model_validate(
    {
        "cards": [
            {"front": "光合作用 needs?", "back": "light 🌞", "source_quote": "plants need light"},
            {"front": "And?", "back": "water"},
        ]
    }
)
QUIZ = QuizOutput.model_validate(
    {
        "questions": [
            {
                "question": "What do plants need?",
                "options": ["light 🌞", '"quotes", commas', "光"],
                "correct_index": 0,
                "explanation": "They do.",
                "source_quote": "plants need light",
            },
            {"question": "Yes?", "options": ["yes", "no"], "correct_index": 1},
        ]
    }
)
ANALYSIS = ActiveRecallOutput.model_validate(
    {
        "matched": ["light", "水"],
        "missing": [],
        "verdict": "partial",
        "score": 0.1,
        "feedback": "Nearly — 好 👍",
    }
)


class Words(BaseModel):
    """The output of a job type of the tests' own."""

    words: list[str]


@dataclass
class Scripted:
    """A projector that does what the test says, and counts how often it was asked."""

    act: Any
    key: str = "scripted"
    calls: list[JobView] = field(default_factory=list)

    def project(self, session: Session, job: JobView, output: BaseModel) -> Sequence[ArtifactRef]:
        self.calls.append(job)
        refs: Sequence[ArtifactRef] = self.act(session)
        return refs
