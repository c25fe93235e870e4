"""Job types for the tests of creation."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, field_validator

from engine.app import AiJobApp
from registry.definition import JobDefinition


class Anything(BaseModel):
    """Takes whatever Python value it is given."""

    value: Any = None


class Picky(BaseModel):
    """Its validator has a mistake: it fails with an error that is not a ValueError."""

    text: str

    @field_validator("text")
    @classmethod
    def _mistake(cls, text: str) -> str:
        return {}[text]  # type: ignore[no-any-return]


class Nothing(BaseModel):
    """No output."""


def handler(_ctx: Any) -> Nothing:
    return Nothing()


def register(app: AiJobApp) -> None:
    """Add the types of this folder."""
    for name, model, more in (
        ("anything", Anything, {}),
        ("picky", Picky, {}),
        ("renewing", Anything, {"on_failed": "new"}),
        ("keyed", Anything, {"credential_modes": ("platform_key", "user_deepseek_key")}),
    ):
        app.register(JobDefinition.simple(name, input=model, output=Nothing, handler=handler, **more))
