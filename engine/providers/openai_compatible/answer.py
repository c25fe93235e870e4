"""One answer of a chat completions server, whole or streamed, read without trusting its shape.

The SDK builds its objects from whatever the server sent, unchecked; so every field is read as "maybe".
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from openai import AsyncStream
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from engine.errors import (
    ContentFiltered,
    JobError,
    OutputInvalid,
    OutputTruncated,
    ProviderError,
    ProviderOutcomeUnknown,
)
from engine.providers.base import Usage

_log = logging.getLogger("aijobs.providers")

#: The model ended by itself.
_ENDED: Final = frozenset({"stop", "eos", "end_turn"})
#: It ran into the token limit or the end of its context.
_CUT: Final = frozenset({"length", "max_tokens", "model_length"})
_FILTERED: Final = frozenset({"content_filter", "safety"})


@dataclass(slots=True)
class Answer:
    """What came back, as far as it came."""

    model: str | None = None
    text: str = field(default="", repr=False)
    finish_reason: str | None = None
    refused: bool = False
    usage: Usage = field(default_factory=Usage)
    request_id: str | None = None

    def problem(self, *, accept_cut: bool = False) -> JobError | None:
        """Why this is not a complete answer; None where it is, or where it may be cut off (WL-13)."""
        details: dict[str, Any] = {"usage": self.usage, "finish_reason": self.finish_reason}
        if self.finish_reason is None:
            return ProviderOutcomeUnknown("The answer ended without saying why.", **details)
        if self.finish_reason in _FILTERED:
            return ContentFiltered(**details)
        if self.refused:
            return ContentFiltered("The model refused to answer.", **details)
        if self.finish_reason in _CUT and not (accept_cut and self.text):
            return OutputTruncated(
                errors=["The answer was cut off: it must be shorter."], **details
            )
        if self.finish_reason not in _ENDED | _CUT:
            return ProviderError("The model stopped for a reason that is no normal end.", **details)
        if not self.text.strip():
            return OutputInvalid(errors=["The answer is empty."], **details)
        return None


def read_whole(completion: object, default_model: str) -> Answer:
    """Read an unstreamed answer. Raises :class:`ProviderError` where it does not follow the protocol."""
    choices = getattr(completion, "choices", None)
    if not isinstance(completion, ChatCompletion) or not isinstance(choices, list) or not choices:
        raise ProviderError("The provider's answer does not follow the protocol.")
    message = getattr(choices[0], "message", None)
    return Answer(
        text=_text(getattr(message, "content", None)),
        finish_reason=_word(getattr(choices[0], "finish_reason", None)),
        refused=bool(getattr(message, "refusal", None)),
        usage=_usage(completion, default_model),
        request_id=getattr(completion, "_request_id", None) or _word(completion.id),
    )


async def read_stream(
    stream: AsyncStream[ChatCompletionChunk],
    answer: Answer,
    default_model: str,
    on_delta: Callable[[str], None],
) -> None:
    """Read a streamed answer into ``answer``, which holds what came also when this raises."""
    preview = Preview(on_delta)
    pieces: list[str] = []
    answer.usage = Usage(model=default_model)
    answer.request_id = _word(stream.response.headers.get("x-request-id"))
    try:
        async for chunk in stream:
            _take(chunk, answer, pieces, preview)
    finally:
        answer.text = "".join(pieces)
        await stream.close()


def _take(chunk: object, answer: Answer, pieces: list[str], preview: Preview) -> None:
    answer.request_id = answer.request_id or _word(getattr(chunk, "id", None))
    if getattr(chunk, "usage", None) is not None or getattr(chunk, "model", None):
        answer.usage = _merge(answer.usage, _usage(chunk, None))
    choices = getattr(chunk, "choices", None)
    if not isinstance(choices, list) or not choices:
        return
    delta = getattr(choices[0], "delta", None)
    answer.refused = answer.refused or bool(getattr(delta, "refusal", None))
    answer.finish_reason = _word(getattr(choices[0], "finish_reason", None)) or answer.finish_reason
    piece = _text(getattr(delta, "content", None))
    if piece:
        pieces.append(piece)
        preview.show(piece)


class Preview:
    """Shows pieces of text as they come. A listener that fails loses the preview, not the answer."""

    def __init__(self, on_delta: Callable[[str], None] | None) -> None:
        """Take who listens; None shows nothing."""
        self._on_delta = on_delta

    def show(self, piece: str) -> None:
        """Hand one piece on."""
        if self._on_delta is None:
            return
        try:
            self._on_delta(piece)
        except Exception as error:  # noqa: BLE001 - a paid answer must survive its listener
            self._on_delta = None
            _log.warning(
                "on_delta failed; no more pieces are shown", extra={"error": type(error).__name__}
            )


def _usage(source: object, default_model: str | None) -> Usage:
    usage = getattr(source, "usage", None)
    return Usage(
        input_tokens=_count(getattr(usage, "prompt_tokens", None)),
        output_tokens=_count(getattr(usage, "completion_tokens", None)),
        model=_word(getattr(source, "model", None)) or default_model,
    )


def _merge(old: Usage, new: Usage) -> Usage:
    return Usage(
        input_tokens=new.input_tokens if new.input_tokens is not None else old.input_tokens,
        output_tokens=new.output_tokens if new.output_tokens is not None else old.output_tokens,
        model=new.model or old.model,
    )


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _word(value: Any) -> str | None:
    return value[:128] if isinstance(value, str) and value else None


def _text(value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ProviderError("The provider's answer does not follow the protocol.")
    return value
