"""What a server understands of the protocol, learnt from what it refuses.

Servers differ in four optional parts of a request. We begin with the most capable form; a refusal that blames one
part (HTTP 400 or 422: nothing was generated, nothing is billed) makes that part simpler, and what then worked is
remembered per base URL and model.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from pydantic import BaseModel

from engine.providers.base import GenerateRequest, Message
from engine.providers.openai_compatible.schema import strict_schema
from engine.providers.structured import schema_instruction


class Structured(enum.IntEnum):
    """How the server is told the shape of the answer, best first."""

    JSON_SCHEMA = 0
    JSON_OBJECT = 1
    PROMPT = 2


@dataclass(frozen=True, slots=True)
class Dialect:
    """The optional parts of a request as one server wants them."""

    structured: Structured = Structured.JSON_SCHEMA
    limit_field: str = "max_tokens"
    temperature: bool = True
    stream_usage: bool = True

    def arguments(self, request: GenerateRequest, model: str) -> dict[str, Any]:
        """The arguments of the SDK's call."""
        arguments: dict[str, Any] = {"model": model, "messages": self._messages(request)}
        if request.schema is not None and self.structured is not Structured.PROMPT:
            arguments["response_format"] = self._response_format(request.schema)
        if request.max_output_tokens is not None:
            arguments[self.limit_field] = request.max_output_tokens
        if request.temperature is not None and self.temperature:
            arguments["temperature"] = request.temperature
        if request.on_delta is not None and self.stream_usage:
            arguments["stream_options"] = {"include_usage": True}
        return arguments

    def _messages(self, request: GenerateRequest) -> list[dict[str, str]]:
        messages = list(request.messages)
        if request.schema is not None and self.structured is not Structured.JSON_SCHEMA:
            messages = list(_with_instruction(messages, schema_instruction(request.schema)))
        return [{"role": message.role, "content": message.content} for message in messages]

    def _response_format(self, model: type[BaseModel]) -> dict[str, Any]:
        if self.structured is Structured.JSON_OBJECT:
            return {"type": "json_object"}
        schema, strict = strict_schema(model)
        name = re.sub(r"[^A-Za-z0-9_-]", "_", model.__name__)[:64]
        return {
            "type": "json_schema",
            "json_schema": {"name": name, "schema": schema, "strict": strict},
        }

    def simpler(self, request: GenerateRequest, blame: str | None) -> Dialect | None:
        """The next form to try after a refusal that blames ``blame``; None where there is nothing to give up.

        ``blame`` is the refusal's text in lower case, read for this decision and kept nowhere; None means
        that the server gave no reason.
        """
        can_give_way = request.schema is not None and self.structured is not Structured.PROMPT
        if can_give_way and (blame is None or _SHAPE.search(blame)):
            return replace(self, structured=Structured(self.structured + 1))
        return self._without(request, blame or "")

    def _without(self, request: GenerateRequest, blame: str) -> Dialect | None:
        if "max_completion_tokens" in blame and self.limit_field == "max_tokens":
            return replace(self, limit_field="max_completion_tokens")
        if "temperature" in blame and self.temperature and request.temperature is not None:
            return replace(self, temperature=False)
        if "stream_options" in blame and self.stream_usage and request.on_delta is not None:
            return replace(self, stream_usage=False)
        return None


_SHAPE: Final = re.compile(r"response_?\s?format|json_schema|json_object|json mode|structured")


def _with_instruction(messages: list[Message], instruction: str) -> Iterable[Message]:
    if messages and messages[0].role == "system":
        yield Message("system", f"{messages[0].content}\n\n{instruction}")
        yield from messages[1:]
    else:
        yield Message("system", instruction)
        yield from messages
