"""A model provider that answers what the test has written down: values, errors, or silence."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from pydantic import ValidationError

from engine.errors import OutputInvalid
from engine.providers.base import GenerateRequest, GenerateResult, Usage
from engine.resources.credentials import Credential

#: What one call does: raise an exception, be silent until it is aborted, or answer with a value.
Answer = Any


class Silence:
    """An answer that never comes; `asked` is set when the call has been made."""

    def __init__(self) -> None:
        self.asked = threading.Event()


class ScriptedProvider:
    """Answers calls in order from its script; the last answer is used again and again."""

    name = "scripted"

    def __init__(self, *script: Answer) -> None:
        self.script: deque[Answer] = deque(script)
        self.requests: list[GenerateRequest] = []
        self.timeouts: list[float] = []
        self.before: Callable[[GenerateRequest], None] | None = None

    def say(self, *script: Answer) -> None:
        """Forget the rest of the script and follow this one."""
        self.script = deque(script)

    async def generate(
        self, request: GenerateRequest, *, credential: Credential, timeout_s: float
    ) -> GenerateResult:
        self.requests.append(request)
        self.timeouts.append(timeout_s)
        if self.before is not None:
            self.before(request)
        answer = self.script.popleft() if len(self.script) > 1 else self.script[0]
        if isinstance(answer, Silence):
            answer.asked.set()
            await asyncio.Event().wait()
        if isinstance(answer, BaseException):
            raise answer
        usage = Usage(input_tokens=3, output_tokens=5, model="scripted-1")
        return GenerateResult(json.dumps(answer), _parsed(request, answer), usage, "stop", "request-1")

    async def aclose(self) -> None:
        return None


def _parsed(request: GenerateRequest, answer: Answer) -> Any:
    if request.schema is None:
        return None
    try:
        return request.schema.model_validate(answer)
    except ValidationError as error:
        raise OutputInvalid("no match", errors=[e["msg"] for e in error.errors()]) from None
