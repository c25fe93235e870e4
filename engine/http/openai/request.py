"""What a client may ask for, and the job's payload it becomes.

Nothing is passed over in silence that would change the answer: what cannot be honoured is refused by name, what
only labels a request is taken and left.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from engine.http.openai.failure import UnsupportedParameter
from registry.catalog.chat_completion import ChatCompletionInput, ChatTurn

#: Parameters that must be absent or have these values, which are what the answer has anyway.
_ONLY: Final[dict[str, tuple[Any, ...]]] = {
    "n": (1,),
    "top_p": (1, 1.0),
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "logit_bias": ({},),
    "stop": ([],),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "parallel_tool_calls": (True, False),
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
    "audio": (),
    "prediction": (),
    "reasoning_effort": (),
    "verbosity": (),
    "web_search_options": (),
}


class TextPart(BaseModel):
    """A part of a message; only text is taken."""

    type: Literal["text"]
    text: str


class ChatMessage(BaseModel):
    """One message of the conversation."""

    model_config = ConfigDict(extra="allow")

    role: Literal["system", "developer", "user", "assistant"]
    content: str | Annotated[list[TextPart], Field(min_length=1)]
    name: str | None = None

    def turn(self) -> ChatTurn:
        """This message as the model gets it."""
        content = self.content
        text = content if isinstance(content, str) else "\n".join(part.text for part in content)
        return ChatTurn(role="system" if self.role == "developer" else self.role, content=text)


class StreamOptions(BaseModel):
    """How to stream."""

    model_config = ConfigDict(extra="ignore")

    include_usage: bool = False


class ChatRequest(BaseModel):
    """The body of ``POST /v1/chat/completions``."""

    model_config = ConfigDict(extra="forbid")

    model: str = Field(min_length=1, max_length=128)
    messages: list[ChatMessage] = Field(min_length=1, max_length=1_000)
    temperature: float | None = Field(default=None, ge=0, le=2)
    max_tokens: int | None = Field(default=None, ge=1, le=1_000_000)
    max_completion_tokens: int | None = Field(default=None, ge=1, le=1_000_000)
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    # Labels: they change no answer.
    user: str | None = None
    metadata: dict[str, Any] | None = None
    store: bool | None = None
    seed: int | None = None
    service_tier: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None
    # Refused unless they say what is done anyway; see _ONLY.
    n: Any = None
    top_p: Any = None
    frequency_penalty: Any = None
    presence_penalty: Any = None
    logprobs: Any = None
    top_logprobs: Any = None
    logit_bias: Any = None
    stop: Any = None
    tools: Any = None
    tool_choice: Any = None
    functions: Any = None
    function_call: Any = None
    parallel_tool_calls: Any = None
    response_format: Any = None
    modalities: Any = None
    audio: Any = None
    prediction: Any = None
    reasoning_effort: Any = None
    verbosity: Any = None
    web_search_options: Any = None

    @field_validator("messages")
    @classmethod
    def _no_tools(cls, messages: list[ChatMessage]) -> list[ChatMessage]:
        for place, message in enumerate(messages):
            if (message.model_extra or {}).get("tool_calls"):
                raise ValueError(f"messages[{place}].tool_calls is not supported")
        return messages

    def payload(self, model: str | None) -> ChatCompletionInput:
        """The job's input. Raises :class:`UnsupportedParameter`."""
        self._refuse_what_cannot_be_done()
        return ChatCompletionInput(
            messages=[message.turn() for message in self.messages],
            model=model,
            temperature=self.temperature,
            max_output_tokens=self._limit(),
            stream=bool(self.stream),
        )

    @property
    def wants_usage(self) -> bool:
        """Whether the last chunk of a stream is to hold the usage."""
        return self.stream_options is not None and self.stream_options.include_usage

    def _refuse_what_cannot_be_done(self) -> None:
        for name, harmless in _ONLY.items():
            value = getattr(self, name)
            if value is not None and value not in harmless:
                raise UnsupportedParameter(
                    detail=f"The parameter {name} is not supported here.", param=name
                )

    def _limit(self) -> int | None:
        both = {self.max_tokens, self.max_completion_tokens} - {None}
        if len(both) > 1:
            raise UnsupportedParameter(
                detail="max_tokens and max_completion_tokens say different things.",
                param="max_tokens",
            )
        return self.max_completion_tokens or self.max_tokens
