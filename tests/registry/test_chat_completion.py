"""The chat completion type: what it takes, and what it makes of a model's result."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic import ValidationError

from registry.catalog.chat_completion import ChatCompletionInput, ChatCompletionOutput, run

HELLO = {"messages": [{"role": "user", "content": "hello"}]}


@dataclass
class Usage:
    model: str | None = "m-1"
    input_tokens: int | None = 3
    output_tokens: int | None = 2


@dataclass
class Result:
    text: str = "hi"
    finish_reason: str = "stop"
    usage: Usage = field(default_factory=Usage)


class Context:
    """A job context that answers with a given result and writes down what it was asked."""

    def __init__(self, payload: dict[str, Any], result: Result) -> None:
        self.input = ChatCompletionInput.model_validate(payload)
        self.result = result
        self.asked: dict[str, Any] = {}
        self.shown: list[str] = []

    async def complete(self, messages: Any, **options: Any) -> Result:
        self.asked = {"messages": [(m.role, m.content) for m in messages], **options}
        if options["on_delta"]:
            for piece in ("h", "i"):
                options["on_delta"](piece)
        return self.result

    def emit(self, text: str) -> None:
        self.shown.append(text)


def answered(payload: dict[str, Any], result: Result | None = None) -> tuple[Context, Any]:
    context = Context(payload, result or Result())
    return context, asyncio.run(run(context))


def test_conversation_and_its_settings_reach_the_model() -> None:
    context, output = answered(
        {
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "hello"},
            ],
            "model": "m-1",
            "temperature": 0.5,
            "max_output_tokens": 9,
        }
    )

    assert context.asked == {
        "messages": [("system", "Be brief."), ("user", "hello")],
        "model": "m-1",
        "temperature": 0.5,
        "max_output_tokens": 9,
        "on_delta": None,
        "accept_cut": True,
    }
    assert output == ChatCompletionOutput(
        content="hi", finish_reason="stop", model="m-1", input_tokens=3, output_tokens=2
    )


def test_pieces_are_shown_only_where_a_stream_was_asked_for() -> None:
    assert answered(HELLO)[0].shown == []
    assert answered(HELLO | {"stream": True})[0].shown == ["h", "i"]


@pytest.mark.parametrize(
    ("reason", "told"),
    [("stop", "stop"), ("eos", "stop"), ("length", "length"), ("max_tokens", "length")],
)
def test_answer_that_was_cut_off_says_so(reason: str, told: str) -> None:
    assert answered(HELLO, Result(finish_reason=reason))[1].finish_reason == told


@pytest.mark.parametrize(
    "change",
    [
        {"messages": []},
        {"messages": [{"role": "tool", "content": "x"}]},
        {"messages": [{"role": "user"}]},
        {"temperature": 2.1},
        {"temperature": -0.1},
        {"max_output_tokens": 0},
        {"model": ""},
        {"tools": []},
    ],
)
def test_what_is_no_conversation_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ChatCompletionInput.model_validate(HELLO | change)
