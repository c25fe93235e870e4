"""A chat request as a job: messages in, the model's text out; what the OpenAI-compatible route creates.

An answer that the model cut off at the caller's own token limit is an answer here, with the finish reason
"length"; for other job types it would be a failure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal, Protocol

from pydantic import Field

from registry.catalog.fields import JobInput, JobOutput
from registry.definition import JobDefinition

FinishReason = Literal["stop", "length", "content_filter"]

#: What providers call an answer that ran into a token limit.
_CUT: Final = frozenset({"length", "max_tokens", "model_length"})


class ChatTurn(JobInput):
    """One message of the conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


class ChatCompletionInput(JobInput):
    """A conversation and how to continue it."""

    messages: list[ChatTurn] = Field(min_length=1, max_length=1_000)
    model: str | None = Field(default=None, min_length=1, max_length=128)
    temperature: float | None = Field(default=None, ge=0, le=2, allow_inf_nan=False)
    max_output_tokens: int | None = Field(default=None, ge=1, le=1_000_000)
    stream: bool = Field(default=False, description="Show the answer while it is being made.")


class ChatCompletionOutput(JobOutput):
    """The assistant's message, and what it took."""

    content: str
    finish_reason: FinishReason = "stop"
    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None


class ChatUsage(Protocol):
    """What a call used, as the provider reported it."""

    @property
    def model(self) -> str | None: ...
    @property
    def input_tokens(self) -> int | None: ...
    @property
    def output_tokens(self) -> int | None: ...


class ChatResult(Protocol):
    """The result of one call of a model."""

    @property
    def text(self) -> str: ...
    @property
    def finish_reason(self) -> str: ...
    @property
    def usage(self) -> ChatUsage: ...


class ChatContext(Protocol):
    """What the handler needs of a job context."""

    @property
    def input(self) -> ChatCompletionInput: ...

    async def complete(
        self,
        messages: Sequence[ChatTurn],
        *,
        model: str | None,
        temperature: float | None,
        max_output_tokens: int | None,
        on_delta: Callable[[str], None] | None,
        accept_cut: bool,
    ) -> ChatResult:
        """One metered call of the model with these messages."""
        ...

    def emit(self, text: str) -> None:
        """Show a piece of text to whoever watches this job."""
        ...


async def run(ctx: ChatContext) -> ChatCompletionOutput:
    """Continue the conversation; with ``stream`` the pieces are shown as they come."""
    order = ctx.input
    result = await ctx.complete(
        order.messages,
        model=order.model,
        temperature=order.temperature,
        max_output_tokens=order.max_output_tokens,
        on_delta=ctx.emit if order.stream else None,
        accept_cut=True,
    )
    return ChatCompletionOutput(
        content=result.text,
        finish_reason="length" if result.finish_reason in _CUT else "stop",
        model=result.usage.model,
        input_tokens=result.usage.input_tokens,
        output_tokens=result.usage.output_tokens,
    )


DEFINITION: Final = JobDefinition.simple(
    "chat_completion",
    input=ChatCompletionInput,
    output=ChatCompletionOutput,
    handler=run,
    queue="ai-interactive",
    priority=10,
    timeout_ms=300_000,
    max_retries=2,
    label="Chat completion",
    description="Continues a conversation; made by the OpenAI-compatible route.",
    snapshot_days=7,
    output_days=30,
)
