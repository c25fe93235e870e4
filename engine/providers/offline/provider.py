"""The offline provider: the protocol around what can be done without a model."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from engine.errors import JobError, OfflineCannotDo, ProviderTimeout
from engine.providers.base import GenerateRequest, GenerateResult, Usage
from engine.providers.offline.flashcards import make_flashcards
from engine.providers.offline.quiz import make_quiz
from engine.providers.offline.recall import judge_answer
from engine.providers.offline.summary import extract
from engine.resources.credentials import Credential

#: Recorded as the model; raised whenever the same text gives another answer.
MODEL: Final = "offline-2"

_TOKEN: Final = re.compile(
    r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+|[^\w\s]"
)


class OfflineProvider:
    """Works on the text it is given; no network, no model, the same answer every time.

    It knows the tasks ``flashcard_generation``, ``quiz_generation`` and ``active_recall``, and answers a request
    without a schema with an extract of the last message. It writes in the language of the text, whatever
    language is asked for: it cannot translate.
    """

    name = "offline"

    async def generate(
        self, request: GenerateRequest, *, credential: Credential, timeout_s: float
    ) -> GenerateResult:
        """Answer one request; see :class:`engine.providers.base.AiProvider`. The credential is not looked at.

        Raises :class:`OfflineCannotDo` for a task with a schema that it does not know,
        :class:`~engine.errors.SourceTextUnusable` for a text without words, :class:`ProviderTimeout`.
        """
        limit = asyncio.timeout(timeout_s)
        try:
            async with limit:
                # A long text takes a second of work, which must not stand in the way of heartbeats.
                text, parsed = await asyncio.to_thread(_answer, request)
                if request.on_delta is not None:
                    await _show(text, request.on_delta)
        except TimeoutError:
            if not limit.expired():
                raise
            raise ProviderTimeout("The offline provider was not done in time.") from None
        return GenerateResult(
            text=text,
            parsed=parsed,
            usage=_usage(request, text),
            finish_reason="stop",
            provider_request_id=None,
        )

    async def aclose(self) -> None:
        """Nothing is open."""


def _flashcards(data: Mapping[str, Any]) -> dict[str, Any]:
    return make_flashcards(
        data["text"], max_cards=data.get("max_cards") or 10, title=data.get("title")
    )


def _quiz(data: Mapping[str, Any]) -> dict[str, Any]:
    return make_quiz(
        data["text"], max_questions=data.get("max_questions") or 5, title=data.get("title")
    )


def _recall(data: Mapping[str, Any]) -> dict[str, Any]:
    return judge_answer(
        question=data.get("question") or "",
        reference=data["reference"],
        answer=data["answer"],
        language=data.get("language"),
    )


_TASKS: Final[Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]]] = {
    "flashcard_generation": _flashcards,
    "quiz_generation": _quiz,
    "active_recall": _recall,
}


def _answer(request: GenerateRequest) -> tuple[str, BaseModel | None]:
    task = _TASKS.get(request.task)
    if task is None and request.schema is not None:
        raise OfflineCannotDo(
            f"The offline provider cannot do task {request.task!r}; it knows {', '.join(sorted(_TASKS))}. "
            "Configure a provider for this job.",
            task=request.task,
        )
    if task is None:
        return extract(request.messages[-1].content if request.messages else ""), None
    try:
        content = task(request.input)
    except KeyError as missing:
        raise OfflineCannotDo(
            f"The input of task {request.task!r} has no field {missing}.", task=request.task
        ) from None
    return _in_shape(request, content)


def _in_shape(request: GenerateRequest, content: dict[str, Any]) -> tuple[str, BaseModel | None]:
    parsed: BaseModel | None = None
    if request.schema is not None:
        try:
            parsed = request.schema.model_validate(content)
        except ValidationError:
            raise _other_shape(request) from None
    return json.dumps(content, ensure_ascii=False, indent=1), parsed


def _other_shape(request: GenerateRequest) -> JobError:
    name = request.schema.__name__ if request.schema is not None else ""
    return OfflineCannotDo(
        f"The offline provider does task {request.task!r}, but not in the shape of {name}.",
        task=request.task,
    )


async def _show(text: str, on_delta: Callable[[str], None]) -> None:
    for piece in _pieces(text):
        on_delta(piece)
        # Others run between two pieces, as they would between two packets.
        await asyncio.sleep(0)


def _pieces(text: str) -> Iterator[str]:
    """The text line by line; together they are the text."""
    yield from text.splitlines(keepends=True)


def count_tokens(text: str) -> int:
    """The offline provider's measure: a word, a number, a mark, or one ideograph, kana or hangul is a token."""
    return sum(1 for _ in _TOKEN.finditer(text))


def _usage(request: GenerateRequest, text: str) -> Usage:
    """What was read and written; it costs nothing."""
    if request.messages:
        read = sum(count_tokens(message.content) for message in request.messages)
    else:
        read = sum(
            count_tokens(value) for value in request.input.values() if isinstance(value, str)
        )
    return Usage(
        input_tokens=read,
        output_tokens=count_tokens(text),
        model=MODEL,
        cost_usd=Decimal(0),
        requests=0,
    )
