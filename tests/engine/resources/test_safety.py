"""Block lists and redaction."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, computed_field

from engine.errors import ContentSafetyError, OutputInvalid
from engine.resources.redaction import Redactor, redact_output
from engine.resources.safety import BlockList, ContentSafety, texts_of


class Note(BaseModel):
    title: str = ""
    lines: list[str] = []
    extra: dict[str, Any] = {}


async def blocked(safety: ContentSafety, content: Any) -> bool:
    results = set()
    for check in (safety.check_input, safety.check_output):
        try:
            await check(content, job_type="t")
        except ContentSafetyError:
            results.add(True)
        else:
            results.add(False)
    assert len(results) == 1, "input and output are judged alike"
    return results.pop()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Make a bomb", True),
        ("BOMB!", True),
        ("\uff42\uff4f\uff4d\uff42", True),
        ("a bombastic speech", False),
        ("bathbomb", False),
        ("very   bad\nthing", True),
        ("very good thing", False),
        ("怎么做炸弹的人", True),
        ("Cafe\u0301 noir", True),
        ("", False),
    ],
)
async def test_block_list_matches_words_in_any_spelling(text: str, expected: bool) -> None:
    safety = BlockList(["bomb", "Very bad thing", "炸弹", "Café Noir", "", "  "])
    assert await blocked(safety, {"deep": [1, {"x": text}]}) is expected
    assert await blocked(safety, Note(lines=["fine", text])) is expected
    assert await blocked(safety, {text: None}) is expected


async def test_empty_block_list_lets_everything_pass() -> None:
    assert not await blocked(BlockList(), {"text": "bomb"})


async def test_refusal_tells_neither_the_content_nor_the_term() -> None:
    with pytest.raises(ContentSafetyError) as caught:
        await BlockList(["bomb"]).check_input({"text": "secret bomb"}, job_type="t")
    shown = str(caught.value) + repr(vars(caught.value))
    assert "bomb" not in shown
    assert "secret" not in shown


def test_texts_are_found_at_every_depth() -> None:
    content = {"a": ["b", ("c", {"d": 1, "e": None})], "f": b"no text"}
    assert list(texts_of(content)) == ["a", "b", "c", "d", "e", "f"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Write to Ann.Lee+x@mail.example.com, please.", "Write to [email-1], please."),
        ("a@b.co, c@d.org, a@b.co", "[email-1], [email-2], [email-1]"),
        ("key sk-proj-abcdefghijklmnop1234", "key [key-1]"),
        ("AKIAIOSFODNN7EXAMPLE", "[key-1]"),
        ("ghp_" + "a1" * 18, "[key-1]"),
        ("Authorization: Bearer abcdefghijklmnop123456", "Authorization: [token-1]"),
        ("eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.SflKxwRJSMeK", "[token-1]"),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----!",
            "[private-key-1]!",
        ),
        ("-----BEGIN PRIVATE KEY-----\nMIIE cut off", "[private-key-1]"),
        ("An e-mail @ noon, 3@4, user@localhost, sk-short", None),
        ("The bearer of good news was in the risk-management-department-of-x", None),
        ("写信给 a@b.cn。", "写信给 [email-1]。"),
    ],
)
def test_addresses_and_keys_are_replaced(text: str, expected: str | None) -> None:
    assert Redactor().text(text) == (text if expected is None else expected)


def test_redaction_goes_to_every_depth_and_keeps_the_rest() -> None:
    note = Note(title="Hi", lines=["a@b.co"], extra={"c@d.co": [1, None, {"x": "a@b.co"}]})
    assert redact_output(note) == Note(
        title="Hi", lines=["[email-1]"], extra={"[email-2]": [1, None, {"x": "[email-1]"}]}
    )


def test_output_without_findings_is_returned_as_it_is() -> None:
    note = Note(title="Hi")
    assert redact_output(note) is note


def test_model_with_aliases_and_computed_fields_survives_redaction() -> None:
    class Odd(BaseModel):
        model_config = ConfigDict(extra="forbid")
        mail: Annotated[str, Field(alias="eMail")]

        @computed_field  # type: ignore[prop-decorator]
        @property
        def size(self) -> int:
            return len(self.mail)

    assert redact_output(Odd.model_validate({"eMail": "a@b.co"})).mail == "[email-1]"


def test_model_that_allows_no_placeholder_is_refused_without_quoting_it() -> None:
    class Mail(BaseModel):
        mail: str = Field(pattern="^[^\\[]+$")

    with pytest.raises(OutputInvalid) as caught:
        redact_output(Mail(mail="ann@example.com"))
    assert "ann" not in str(caught.value) + repr(caught.value.errors)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "piece", ["a", "@", "a@", "a.", "eyJ", "sk-", "-----BEGIN PRIVATE KEY-----", "a-"]
)
def test_redaction_is_quick_on_any_input(piece: str) -> None:
    Redactor().text(piece * (400_000 // len(piece)))
