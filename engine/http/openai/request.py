"""What a client may ask for, and the job's payload it becomes.

Nothing is passed over in silence that would change the answer: what cannot be honoured is refused by name, what
only labels a request is taken and left.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from engine.http.bodies import JSON_NUMBER
from registry.catalog.chat_completion import ChatCompletionInput, ChatTurn

#: What a database of ours could not keep is refused here already.
_TEXT: Final = r"^[^\x00]*$"

YesNo = Annotated[bool, Field(strict=True)]
Text = Annotated[str, Field(pattern=_TEXT)]
Nothing = Annotated[list[Any], Field(max_length=0)]


class TextPart(BaseModel):
    """A part of a message; only text is taken."""

    type: Literal["text"]
    text: Text


class ChatMessage(BaseModel):
    """One message of the conversation. What else it holds labels it, and is left."""

    model_config = ConfigDict(extra="ignore")

    role: Literal["system", "developer", "user", "assistant"]
    content: Text | Annotated[list[TextPart], Field(min_length=1)]
    name: str | None = None
    tool_calls: Nothing | None = None
    function_call: None = None

    def turn(self) -> ChatTurn:
        """This message as the model gets it."""
        content = self.content
        text = content if isinstance(content, str) else "\n".join(part.text for part in content)
        return ChatTurn(role="system" if self.role == "developer" else self.role, content=text)


class StreamOptions(BaseModel):
    """How to stream."""

    model_config = ConfigDict(extra="ignore")

    include_usage: YesNo | None = False


class PlainText(BaseModel):
    """The one format of an answer that can be asked for."""

    model_config = ConfigDict(extra="forbid")

    type: Literal["text"]


#: Parameters that would change the answer and cannot be honoured; they may only say what is done anyway.
UNSUPPORTED: Final = frozenset(
    {
        "n", "top_p", "frequency_penalty", "presence_penalty", "logprobs", "top_logprobs", "logit_bias",
        "stop", "tools", "tool_choice", "functions", "function_call", "response_format", "modalities",
        "audio", "prediction", "reasoning_effort", "verbosity", "web_search_options",
    }
)  # fmt: skip


class ChatRequest(BaseModel):
    """The body of ``POST /v1/chat/completions``."""

    model_config = ConfigDict(extra="forbid")

    model: str = Field(min_length=1, max_length=128, pattern=r"^[^\x00-\x1f\x7f]*$")
    messages: list[ChatMessage] = Field(min_length=1, max_length=1_000)
    temperature: float | None = Field(default=None, ge=0, le=2, strict=True)
    max_tokens: Annotated[int, Field(ge=1, le=1_000_000), JSON_NUMBER] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1, le=1_000_000), JSON_NUMBER] | None = None
    stream: YesNo | None = False
    stream_options: StreamOptions | None = None
    # Labels: they change no answer.
    user: str | None = None
    metadata: dict[str, Any] | None = None
    store: YesNo | None = None
    seed: Annotated[int, JSON_NUMBER] | None = None
    service_tier: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None
    parallel_tool_calls: YesNo | None = None
    # UNSUPPORTED
    n: Annotated[int, Field(ge=1, le=1), JSON_NUMBER] | None = None
    top_p: float | None = Field(default=None, ge=1, le=1, strict=True)
    frequency_penalty: float | None = Field(default=None, ge=0, le=0, strict=True)
    presence_penalty: float | None = Field(default=None, ge=0, le=0, strict=True)
    logprobs: Literal[False] | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=0), JSON_NUMBER] | None = None
    logit_bias: Annotated[dict[str, Any], Field(max_length=0)] | None = None
    stop: Nothing | None = None
    tools: Nothing | None = None
    tool_choice: Literal["none", "auto"] | None = None
    functions: Nothing | None = None
    function_call: Literal["none", "auto"] | None = None
    response_format: PlainText | None = None
    modalities: Annotated[list[Literal["text"]], Field(min_length=1, max_length=1)] | None = None
    audio: None = None
    prediction: None = None
    reasoning_effort: None = None
    verbosity: None = None
    web_search_options: None = None

    def payload(self, model: str | None) -> ChatCompletionInput:
        """The job's input; ``model`` is the name for the provider."""
        limits = {self.max_tokens, self.max_completion_tokens} - {None}
        return ChatCompletionInput(
            messages=[message.turn() for message in self.messages],
            model=model,
            temperature=self.temperature,
            max_output_tokens=min(limits, default=None),  # type: ignore[type-var]
            stream=bool(self.stream),
        )

    @property
    def wants_usage(self) -> bool:
        """Whether the last chunk of a stream is to hold the usage."""
        return self.stream_options is not None and bool(self.stream_options.include_usage)
