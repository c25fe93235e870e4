"""Job types for the tests of the pipeline."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel


class Ask(BaseModel):
    """What the sample jobs take."""

    value: Any = None


class Answer(BaseModel):
    """What the sample jobs give."""

    value: Any = None


class Number(BaseModel):
    """An output that can be wrong."""

    number: int
