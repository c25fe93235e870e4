"""One call to a chat completions server: from request to result."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, Final

import openai
from openai import AsyncStream

from engine.errors import (
    CredentialInvalid,
    CredentialMissing,
    JobError,
    ProviderError,
)
from engine.providers.base import GenerateRequest, GenerateResult
from engine.providers.endpoint import normal_base_url
from engine.providers.openai_compatible import outcomes
from engine.providers.openai_compatible.answer import Answer, read_stream, read_whole
from engine.providers.openai_compatible.dialect import Dialect
from engine.providers.openai_compatible.wire import (
    CONNECT_S,
    Connections,
    Wire,
    call_timeout,
    current_wire,
)
from engine.providers.structured import parse_output
from engine.resources.credentials import Credential

#: Refusals that may be about the form of the request.
_ABOUT_FORM: Final = frozenset({400, 422})


class OpenAICompatibleProvider:
    """A server that speaks the chat completions protocol, at one base URL and nowhere else."""

    def __init__(
        self,
        *,
        base_url: str,
        default_model: str,
        name: str = "openai",
        key_required: bool = True,
        trust_env: bool = True,
        connect_s: float = CONNECT_S,
    ) -> None:
        """Take where the server is and which model answers when a request names none.

        ``key_required=False`` is for servers of one's own that take calls without a key. ``trust_env`` lets
        the usual proxy and certificate variables of the process count. A host that takes no connection within
        ``connect_s`` seconds counts as down. Raises :class:`SettingsError`.
        """
        self.name = name
        self.base_url = normal_base_url(base_url)
        self._default_model = default_model
        self._key_required = key_required
        self._connect_s = connect_s
        self._connections = Connections(self.base_url, trust_env=trust_env)
        self._dialects: dict[str, Dialect] = {}

    async def generate(
        self, request: GenerateRequest, *, credential: Credential, timeout_s: float
    ) -> GenerateResult:
        """Send one request; see :class:`engine.providers.base.AiProvider`.

        More than one request is sent only while the server's dialect is unknown and it refuses the form; the
        result's ``usage.requests`` and an error's ``details["requests"]`` count them.
        """
        headers = self._headers(request, credential)
        wire = Wire()
        token = current_wire.set(wire)
        try:
            result, failure = await self._attempt(request, headers, timeout_s, wire)
        finally:
            current_wire.reset(token)
        if result is None:
            # Raised out here, so that no SDK error with a request inside hangs on it as context.
            failure.details.setdefault("requests", wire.requests)
            raise failure
        return replace(result, usage=replace(result.usage, requests=wire.requests))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._connections.aclose()

    def _headers(self, request: GenerateRequest, credential: Credential) -> dict[str, Any]:
        if (
            credential.base_url is not None
            and normal_base_url(credential.base_url) != self.base_url
        ):
            raise CredentialInvalid(
                "The credential belongs to another endpoint than this provider's."
            )
        key = credential.secret.get_secret_value().strip() if credential.secret else ""
        if not key and self._key_required:
            raise CredentialMissing(mode=credential.mode)
        if not key.isascii() or not key.isprintable():
            raise CredentialInvalid("The key holds characters that no key has.")
        headers: dict[str, Any] = {"Authorization": f"Bearer {key}" if key else openai.Omit()}
        if request.operation_id:
            headers["Idempotency-Key"] = request.operation_id
        return headers

    async def _attempt(
        self, request: GenerateRequest, headers: dict[str, Any], timeout_s: float, wire: Wire
    ) -> tuple[GenerateResult | None, JobError]:
        """The result, or what became of the call instead."""
        failure: JobError = ProviderError()
        limit = asyncio.timeout(timeout_s)
        try:
            async with limit:
                return await self._negotiate(request, headers, timeout_s), failure
        except TimeoutError:
            if not limit.expired():
                raise
            failure = outcomes.timed_out(sent=wire.sent)
        except JobError as error:
            failure = error
        except openai.OpenAIError as error:
            failure = outcomes.from_sdk(error, sent=wire.sent)
        except ValueError:
            # The SDK lets broken JSON through as the parser's own error.
            failure = ProviderError("The provider's answer could not be read.")
        return None, failure

    async def _negotiate(
        self, request: GenerateRequest, headers: dict[str, Any], timeout_s: float
    ) -> GenerateResult:
        model = request.model or self._default_model
        dialect = self._dialects.get(model, Dialect())
        while True:
            try:
                answer = await self._send(request, dialect, model, headers, timeout_s)
            except openai.APIStatusError as error:
                simpler = self._simpler(dialect, request, error)
                if simpler is None:
                    raise
                dialect = simpler
            else:
                # Only what worked is remembered: a refusal may have had another cause.
                self._dialects[model] = dialect
                return _result(request, answer)

    def _simpler(
        self, dialect: Dialect, request: GenerateRequest, error: openai.APIStatusError
    ) -> Dialect | None:
        if error.status_code not in _ABOUT_FORM:
            return None
        return dialect.simpler(request, outcomes.Refusal.of(error).text)

    async def _send(
        self,
        request: GenerateRequest,
        dialect: Dialect,
        model: str,
        headers: dict[str, Any],
        timeout_s: float,
    ) -> Answer:
        create: Any = self._connections.client().chat.completions.create
        answered = await create(
            **dialect.arguments(request, model),
            stream=request.on_delta is not None,
            extra_headers=headers,
            timeout=call_timeout(timeout_s, self._connect_s),
        )
        if request.on_delta is None:
            return read_whole(answered, model)
        if not isinstance(answered, AsyncStream):
            raise ProviderError("The provider's answer does not follow the protocol.")
        answer = Answer()
        await read_stream(answered, answer, model, request.on_delta)
        return answer


def _result(request: GenerateRequest, answer: Answer) -> GenerateResult:
    problem = answer.problem(accept_cut=request.accept_cut)
    if problem is not None:
        raise problem
    parsed = (
        parse_output(answer.text, request.schema, usage=answer.usage) if request.schema else None
    )
    return GenerateResult(
        text=answer.text,
        parsed=parsed,
        usage=answer.usage,
        finish_reason=answer.finish_reason or "",
        provider_request_id=answer.request_id,
    )
