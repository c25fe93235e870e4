"""What jobs leave behind: artifacts, costs, and the rows of the built-in projectors."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from engine.migrations import columns as c
from engine.migrations.steps import create_table


def create() -> None:
    """Create ai_job_artifact, ai_usage_log and the business tables."""
    _artifact()
    _usage()
    _flashcard()
    _quiz_question()
    _learning_analysis()


def _artifact() -> None:
    create_table(
        "ai_job_artifact",
        c.column("job_id", c.uuid()),
        c.column("artifact_type", c.name(64)),
        c.column("artifact_id", c.text(255)),
        c.column("ordinal", sa.Integer()),
        c.column("created_at", c.moment()),
        key=["job_id", "artifact_type", "artifact_id"],
    )


def _usage() -> None:
    create_table(
        "ai_usage_log",
        c.column("id", c.uuid()),
        c.column("job_id", c.uuid()),
        c.column("epoch", sa.Integer()),
        c.column("call_no", sa.Integer()),
        c.column("attempt_no", sa.Integer()),
        c.column("operation_id", c.name(128)),
        c.column("status", c.name(16)),
        c.column("credential_mode", c.name(32)),
        c.column("provider", c.text(64)),
        c.column("model", c.text(128), null=True),
        c.column("input_tokens", sa.Integer(), null=True),
        c.column("output_tokens", sa.Integer(), null=True),
        c.column("cost_usd", c.dollars(), null=True),
        c.column("latency_ms", sa.Integer(), null=True),
        c.column("finish_reason", c.text(64), null=True),
        c.column("provider_request_id", c.text(128), null=True),
        c.column("error_code", c.name(64), null=True),
        c.column("created_at", c.moment()),
        c.column("settled_at", c.moment(), null=True),
        unique=[["job_id", "epoch", "call_no"]],
    )


def _owned(name: str, *columns: sa.Column[Any]) -> None:
    """A business table of a built-in projector."""
    create_table(
        name,
        c.column("id", c.uuid()),
        c.column("job_id", c.uuid()),
        c.column("ordinal", sa.Integer()),
        c.column("user_id", c.text(128)),
        c.column("target_type", c.text(64)),
        c.column("target_id", c.text(255)),
        *columns,
        c.column("source", c.long_text(), null=True),
        unique=[["job_id", "ordinal"]],
        indexes={f"ix_{name}_user": ["user_id", "id"]},
    )


def _flashcard() -> None:
    _owned("flashcard", c.column("front", c.long_text()), c.column("back", c.long_text()))


def _quiz_question() -> None:
    _owned(
        "quiz_question",
        c.column("question", c.long_text()),
        c.column("options", c.long_text()),
        c.column("correct_index", sa.Integer()),
        c.column("explanation", c.long_text(), null=True),
    )


def _learning_analysis() -> None:
    _owned(
        "learning_analysis",
        c.column("verdict", c.name(16)),
        c.column("score", sa.Double()),
        c.column("matched", c.long_text()),
        c.column("missing", c.long_text()),
        c.column("feedback", c.long_text()),
    )
