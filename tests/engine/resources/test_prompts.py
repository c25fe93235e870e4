"""Which prompt a job runs with, and the messages it becomes."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from engine.errors import DefinitionRefusesJob
from engine.providers.messages import build_messages
from engine.resources.prompts import PromptCatalog
from registry.definition import JobDefinition
from registry.prompt import PromptTemplate


class In(BaseModel):
    text: str


class Out(BaseModel):
    value: int


OWN = PromptTemplate("2", "Be kind.", "About: {{text}}")
OLD = PromptTemplate("1", "", "{{text}}?")


def definition(prompt: PromptTemplate | None) -> JobDefinition:
    return JobDefinition.simple("topic", input=In, output=Out, prompt=prompt)


def test_definitions_own_prompt_is_the_default() -> None:
    assert PromptCatalog().resolve(definition(OWN)) is OWN
    assert PromptCatalog().resolve(definition(OWN), "2") is OWN
    assert PromptCatalog().resolve(definition(None)) is None


def test_job_may_ask_for_another_known_version() -> None:
    catalog = PromptCatalog({"topic": [OLD]})
    assert catalog.resolve(definition(OWN), "1") is OLD
    assert catalog.versions(definition(OWN)) == ("2", "1")


@pytest.mark.parametrize("catalog", [PromptCatalog(), PromptCatalog({"other": [OLD]})])
def test_unknown_version_is_refused_and_never_replaced(catalog: PromptCatalog) -> None:
    with pytest.raises(DefinitionRefusesJob):
        catalog.resolve(definition(OWN), "1")


def test_messages_are_system_and_user() -> None:
    messages = build_messages(OWN, In(text="{{text}} rain"))
    assert [(m.role, m.content) for m in messages] == [
        ("system", "Be kind."),
        ("user", "About: {{text}} rain"),
    ]


def test_empty_system_text_is_left_out() -> None:
    assert [m.role for m in build_messages(OLD, In(text="rain"))] == ["user"]


def test_retry_says_what_was_wrong() -> None:
    last = build_messages(OWN, In(text="rain"), ["cards: too short", "x: missing"])[-1]
    assert last.role == "user"
    assert "- cards: too short\n- x: missing" in last.content
