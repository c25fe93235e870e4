"""A valid definition, and the way to spoil one part of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pydantic import BaseModel

from registry import JobDefinition


class Question(BaseModel):
    """An input with a text, a number and something that may be missing."""

    text: str
    count: int = 1
    note: str | None = None
    tags: list[str] = []


class Answer(BaseModel):
    """An output."""

    text: str


async def answer(ctx: Any) -> Answer:
    """Answer the question.

    This line is not the description.
    """
    return Answer(text=ctx.input.text)


def definition(job_type: str = "answer_question", **flat: Any) -> JobDefinition:
    """A valid definition, changed by the arguments of ``JobDefinition.simple``."""
    given: dict[str, Any] = {"input": Question, "output": Answer, "handler": answer, **flat}
    return JobDefinition.simple(job_type, **given)


def spoiled(**nested: Any) -> JobDefinition:
    """A valid definition with policies replaced: ``spoiled(queue={"default_priority": -1})``."""
    base = definition()
    changes = {
        name: replace(getattr(base, name), **change) if isinstance(change, dict) else change
        for name, change in nested.items()
    }
    return replace(base, **changes)
