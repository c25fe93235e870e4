"""What a model provider is to the engine: one asynchronous call, its request and its honest result.

A ``generate`` call leads to at most one generation, and a provider never retries by itself (WL-10): the
engine alone decides what is tried again. It says what happened with the classes of
``engine.errors``, and tells "not sent" (``ProviderUnavailable``) from "sent, outcome unknown"
(``ProviderOutcomeUnknown``, ``ProviderTimeout``; WL-11).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal, Protocol

from pydantic import BaseModel

from engine.resources.credentials import Credential

Role = Literal["system", "user", "assistant"]


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of the conversation sent to the model. Its content never appears in a repr or a log."""

    role: Role
    content: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class GenerateRequest:
    """One call of a model: what is asked, and in which shape the answer has to come.

    ``input`` is the job's validated input as plain data; the offline provider works on it, real
    providers ignore it. ``operation_id`` names the call and stays the same across takeovers; it is sent as
    ``Idempotency-Key``. ``on_delta`` gets the pieces of text as they come, on the event loop of the call;
    pieces are a preview, only the returned result is the answer. With ``accept_cut`` an answer that the token
    limit cut off is a result (its ``finish_reason`` says so) and no ``OutputTruncated``.
    """

    task: str
    messages: tuple[Message, ...] = field(repr=False)
    schema: type[BaseModel] | None = None
    input: Mapping[str, Any] = field(default_factory=dict, repr=False)
    model: str | None = None
    temperature: float | None = None
    max_output_tokens: int | None = None
    operation_id: str = ""
    on_delta: Callable[[str], None] | None = field(default=None, repr=False)
    accept_cut: bool = False


@dataclass(frozen=True, slots=True)
class Usage:
    """What a call used, as the provider reported it; None where it did not say."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    model: str | None = None
    cost_usd: Decimal | None = None
    #: HTTP requests that were sent: refused forms of a request count too, they are not billed (WL-10).
    requests: int = 1


@dataclass(frozen=True, slots=True)
class GenerateResult:
    """A complete answer: the model ended by itself, and ``parsed`` is valid where a schema was asked for."""

    text: str = field(repr=False)
    parsed: BaseModel | None = field(repr=False)
    usage: Usage
    finish_reason: str
    provider_request_id: str | None = None


class AiProvider(Protocol):
    """A source of model answers, safe for many calls at a time on one event loop."""

    name: str

    async def generate(
        self, request: GenerateRequest, *, credential: Credential, timeout_s: float
    ) -> GenerateResult:
        """Answer ``request`` within ``timeout_s`` seconds, or raise one of the errors below.

        Cancelling the awaiting task aborts the call.

        Raises: ``ProviderError`` and its leaves, ``OutputInvalid``, ``OutputTruncated``,
        ``ContentFiltered``, ``CredentialError`` and its leaves. Errors that come after the model answered carry
        what it used as ``error.details["usage"]`` (a :class:`Usage`), because it is billed.
        """
        ...

    async def aclose(self) -> None:
        """Close all connections; the provider cannot be used afterwards."""
        ...
