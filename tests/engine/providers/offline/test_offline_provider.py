"""The offline provider as the engine sees it."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest
from pydantic import BaseModel

from engine.errors import OfflineCannotDo, ProviderTimeout, SourceTextUnusable
from engine.providers.base import AiProvider, GenerateRequest, GenerateResult, Message
from engine.providers.offline import OfflineProvider, count_tokens
from engine.resources.credentials import OFFLINE, Credential
from registry.catalog.active_recall import ActiveRecallOutput
from registry.catalog.flashcard_generation import FlashcardOutput
from registry.catalog.quiz_generation import QuizOutput
from tests.engine.providers.offline.texts import BIOLOGY, HISTORY


class Weather(BaseModel):
    degrees: float


async def ask(**fields: Any) -> GenerateResult:
    provider: AiProvider = OfflineProvider()
    timeout_s = fields.pop("timeout_s", 60)
    request = GenerateRequest(**({"messages": ()} | fields))
    result = await provider.generate(request, credential=Credential(OFFLINE), timeout_s=timeout_s)
    await provider.aclose()
    return result


@pytest.mark.parametrize(
    ("task", "schema", "data"),
    [
        ("flashcard_generation", FlashcardOutput, {"text": BIOLOGY, "max_cards": 3, "title": None}),
        ("quiz_generation", QuizOutput, {"text": HISTORY, "max_questions": 3, "language": None}),
        (
            "active_recall",
            ActiveRecallOutput,
            {"question": "?", "reference": "Paris", "answer": "Paris"},
        ),
    ],
)
async def test_known_tasks_give_what_their_schema_asks_for(
    task: str, schema: type[BaseModel], data: dict[str, Any]
) -> None:
    result = await ask(task=task, schema=schema, input=data)
    assert isinstance(result.parsed, schema)
    assert schema.model_validate_json(result.text) == result.parsed
    assert result.finish_reason == "stop"
    assert result.usage.model == "offline-2"
    assert result.usage.cost_usd == 0
    assert result.usage.requests == 0


async def test_usage_counts_what_was_read_and_written() -> None:
    data = {"text": HISTORY, "max_cards": 2}
    messages = (Message("system", "Be brief."), Message("user", "One two, three 光合作用"))
    asked = await ask(
        task="flashcard_generation", schema=FlashcardOutput, input=data, messages=messages
    )
    assert asked.usage.input_tokens == 3 + 8
    assert asked.usage.output_tokens == count_tokens(asked.text)
    bare = await ask(task="flashcard_generation", schema=FlashcardOutput, input=data)
    assert bare.usage.input_tokens == count_tokens(HISTORY)


async def test_pieces_together_are_the_text() -> None:
    pieces: list[str] = []
    result = await ask(
        task="flashcard_generation",
        schema=FlashcardOutput,
        input={"text": BIOLOGY, "max_cards": 5},
        on_delta=pieces.append,
    )
    assert len(pieces) > 5
    assert "".join(pieces) == result.text


async def test_unknown_task_with_a_schema_is_refused_by_name() -> None:
    with pytest.raises(OfflineCannotDo) as caught:
        await ask(task="weather", schema=Weather, input={"text": "Rain."})
    assert "weather" in str(caught.value)
    assert not caught.value.retryable


async def test_known_task_in_another_shape_is_refused() -> None:
    with pytest.raises(OfflineCannotDo):
        await ask(task="flashcard_generation", schema=Weather, input={"text": "Rain falls."})
    with pytest.raises(OfflineCannotDo):
        await ask(task="quiz_generation", schema=QuizOutput, input={"words": "Rain falls."})


async def test_plain_request_is_answered_with_an_extract() -> None:
    text = f"{HISTORY} {BIOLOGY}"
    result = await ask(task="chat", messages=(Message("user", text),))
    assert result.parsed is None
    assert 0 < len(result.text) < len(text) / 2
    assert all(part.strip(" .") in text for part in result.text.split(". ")[:1])


async def test_text_without_words_is_refused() -> None:
    with pytest.raises(SourceTextUnusable):
        await ask(task="flashcard_generation", schema=FlashcardOutput, input={"text": "😀"})


async def test_time_limit_holds() -> None:
    with pytest.raises(ProviderTimeout):
        await ask(
            task="flashcard_generation",
            schema=FlashcardOutput,
            input={"text": BIOLOGY},
            timeout_s=0,
        )


async def test_nothing_is_asked_of_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: object, **_kwargs: object) -> None:
        raise AssertionError("the offline provider opened a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    result = await ask(task="quiz_generation", schema=QuizOutput, input={"text": HISTORY})
    assert json.loads(result.text)["questions"]
