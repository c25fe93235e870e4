"""Prompts are filled once: what a user wrote stays text, whatever it looks like."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, RootModel, SecretStr, computed_field

from registry import PromptTemplate
from registry.errors import PromptValuesError
from tests.registry.samples import Question

FIELDS = ("text", "note")
#: Texts that love to look like places, templates and backreferences.
hostile = st.one_of(
    st.text(),
    st.lists(
        st.sampled_from(["{{", "}}", "{", "}", "text", "note", " ", "{{text}}", "{{ note }}"])
        | st.sampled_from(["\\1", "\\g<0>", "$text", "%s", "{0}", "\n", "count"]),
        max_size=12,
    ).map("".join),
)
#: Template text between places: anything that opens no place.
literal = (st.text() | st.text("{} a")).filter(lambda text: "{{" not in text)


@given(pieces=st.lists(st.tuples(literal, st.sampled_from(FIELDS))), text=hostile, note=hostile)
def test_a_prompt_is_its_pieces_with_each_value_put_in_once(
    pieces: list[tuple[str, str]], text: str, note: str
) -> None:
    template = "".join(f"{piece}{{{{{name}}}}}" for piece, name in pieces)
    values = {"text": text, "note": note}

    rendered = PromptTemplate("1", "", template).render(values)

    assert rendered.user == "".join(piece + values[name] for piece, name in pieces)


@given(text=hostile, note=hostile)
def test_a_users_placeholder_never_reads_another_field(text: str, note: str) -> None:
    template = PromptTemplate("1", "{{note}}", "<{{text}}>")

    rendered = template.render(Question(text=text, note=note))

    assert rendered.user == f"<{text}>"
    assert rendered.system == note


@given(count=st.integers(), tags=st.lists(st.text()))
def test_what_is_not_text_goes_in_as_json(count: int, tags: list[str]) -> None:
    template = PromptTemplate("1", "{{count}}", "{{ tags }}")

    rendered = template.render(Question(text="", count=count, tags=tags))

    assert json.loads(rendered.system) == count
    assert json.loads(rendered.user) == tags


def test_letters_of_every_language_stay_readable_in_json() -> None:
    rendered = PromptTemplate("1", "", "{{tags}}").render(Question(text="", tags=["日本語"]))
    assert rendered.user == '["日本語"]'


def test_a_missing_optional_value_leaves_its_place_empty() -> None:
    rendered = PromptTemplate("1", "", "Note: {{note}}.").render(Question(text="x"))
    assert rendered.user == "Note: ."


def test_a_field_without_any_value_is_an_error_that_names_it() -> None:
    with pytest.raises(PromptValuesError) as refusal:
        PromptTemplate("1", "", "{{text}}").render({"note": "x"})
    assert refusal.value.field == "text"


def test_places_and_strays_are_told_apart() -> None:
    template = PromptTemplate("3", "{{a}} {{ b }}", "{{\tc\n}} {{a}}")

    assert template.places == {"a", "b", "c"}
    assert not template.has_stray_braces
    assert PromptTemplate("3", "{{a}", "").has_stray_braces
    assert not PromptTemplate("3", '{"a": {{a}}}', "{{{a}}{").has_stray_braces
    assert template.render({"a": "1", "b": "2", "c": "3"}).version == "3"


def test_fields_render_in_their_json_form() -> None:
    class Rich(BaseModel):
        at: datetime
        key: SecretStr
        named: str = Field(alias="otherName")

        @computed_field  # type: ignore[prop-decorator]
        @property
        def shout(self) -> str:
            return self.named.upper()

    rich = Rich(at=datetime(2026, 1, 2, tzinfo=UTC), key=SecretStr("k1"), otherName="ann")

    rendered = PromptTemplate("1", "{{at}} {{key}}", "{{named}} {{shout}}").render(rich)

    assert rendered.system == "2026-01-02T00:00:00Z **********"
    assert rendered.user == "ann ANN"


def test_a_root_model_has_one_field_named_root() -> None:
    class Words(RootModel[list[str]]):
        """Only a list."""

    rendered = PromptTemplate("1", "", "{{root}}").render(Words(["a", "b"]))

    assert rendered.user == '["a", "b"]'


def test_a_rendered_prompt_does_not_print_what_it_holds() -> None:
    rendered: Any = PromptTemplate("1", "{{text}}", "{{text}}").render(Question(text="private"))
    assert "private" not in repr(rendered)
