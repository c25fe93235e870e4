"""The provider for chat completions servers, against a real server that misbehaves on purpose."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import traceback
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from pydantic import BaseModel, Field, SecretStr

from engine.errors import (
    ContentFiltered,
    CredentialInvalid,
    CredentialMissing,
    CredentialQuotaExhausted,
    EngineError,
    JobError,
    OutputInvalid,
    OutputTruncated,
    ProviderError,
    ProviderOutcomeUnknown,
    ProviderRateLimited,
    ProviderRejected,
    ProviderTimeout,
    ProviderUnavailable,
    SettingsError,
)
from engine.providers.base import GenerateRequest, GenerateResult, Message, Usage
from engine.providers.openai_compatible import OpenAICompatibleProvider
from engine.resources.credentials import Credential
from tests.support import fake_openai as fake
from tests.support.fake_openai import FakeOpenAI

KEY = "sk-test-0123456789abcdef"
PROMPT = "the-secret-prompt-of-this-test"


class Value(BaseModel):
    value: float
    note: str = Field(default="", max_length=5)


@pytest.fixture
def server() -> Iterator[FakeOpenAI]:
    with FakeOpenAI() as running:
        yield running


@pytest.fixture
async def provider(server: FakeOpenAI) -> AsyncIterator[OpenAICompatibleProvider]:
    made = OpenAICompatibleProvider(
        base_url=server.base_url, default_model="test-model", trust_env=False
    )
    yield made
    await made.aclose()


def ask(**changes: Any) -> GenerateRequest:
    fields: dict[str, Any] = {
        "task": "t",
        "messages": (Message("system", "Be brief."), Message("user", PROMPT)),
        "operation_id": "op-1",
    }
    return GenerateRequest(**(fields | changes))


async def call(
    provider: OpenAICompatibleProvider, timeout_s: float = 20, **changes: Any
) -> GenerateResult:
    credential = Credential("platform_key", SecretStr(KEY))
    return await provider.generate(ask(**changes), credential=credential, timeout_s=timeout_s)


async def failure(
    provider: OpenAICompatibleProvider, timeout_s: float = 20, **changes: Any
) -> JobError:
    with pytest.raises(EngineError) as caught:
        await call(provider, timeout_s, **changes)
    assert isinstance(caught.value, JobError)
    assert_tells_nothing(caught.value)
    return caught.value


def assert_tells_nothing(error: BaseException) -> None:
    """Neither the error, nor its details, nor its whole chain holds the key or the prompt."""
    shown = "".join(traceback.format_exception(error)) + repr(vars(error))
    assert KEY not in shown
    assert PROMPT not in shown
    assert error.__context__ is None
    assert error.__cause__ is None


# -- good answers


async def test_answer_comes_with_usage_model_and_request_id(
    server: FakeOpenAI, provider: OpenAICompatibleProvider
) -> None:
    server.script(fake.answer("Good morning."))
    result = await call(provider)
    assert result.text == "Good morning."
    assert result.parsed is None
    assert result.finish_reason == "stop"
    assert result.usage == Usage(11, 7, "fake-1", requests=1)
    assert result.provider_request_id == "req_fake"


async def test_request_carries_key_operation_id_and_parameters_and_nothing_of_the_machine(
    server: FakeOpenAI, provider: OpenAICompatibleProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-of-another-endpoint")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-another-endpoint")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Gateway: token-of-another-endpoint")
    server.script(fake.answer())
    await call(provider, model="big", temperature=0.5, max_output_tokens=99)
    sent = server.last
    assert sent.path == "/v1/chat/completions"
    assert sent.key == KEY
    assert sent.headers["idempotency-key"] == "op-1"
    assert sent.headers["user-agent"] == "aijobs"
    assert "another-endpoint" not in json.dumps(sent.headers)
    assert not [name for name in sent.headers if name.startswith("x-")]
    assert sent.body["model"] == "big"
    assert (sent.body["temperature"], sent.body["max_tokens"]) == (0.5, 99)
    assert sent.body["messages"][1] == {"role": "user", "content": PROMPT}


async def test_structured_answer_is_validated_and_schema_is_sent_strict(
    server: FakeOpenAI, provider: OpenAICompatibleProvider
) -> None:
    server.script(fake.answer({"value": 3, "note": "ok"}))
    result = await call(provider, schema=Value)
    assert result.parsed == Value(value=3, note="ok")
    form = server.last.body["response_format"]
    assert form["type"] == "json_schema"
    assert form["json_schema"]["strict"] is True
    assert form["json_schema"]["schema"]["required"] == ["value", "note"]
    assert form["json_schema"]["schema"]["additionalProperties"] is False


async def test_stream_shows_every_piece_and_returns_the_whole(
    server: FakeOpenAI, provider: OpenAICompatibleProvider
) -> None:
    server.script(fake.answer(['{"va', 'lue": ', "4}"]))
    pieces: list[str] = []
    result = await call(provider, schema=Value, on_delta=pieces.append)
    assert pieces == ['{"va', 'lue": ', "4}"]
    assert result.parsed == Value(value=4)
    assert result.usage == Usage(11, 7, "fake-1", requests=1)
    assert result.provider_request_id == "req_fake"
    assert server.last.body["stream_options"] == {"include_usage": True}


async def test_failing_listener_loses_the_preview_and_not_the_paid_answer(
    server: FakeOpenAI, provider: OpenAICompatibleProvider
) -> None:
    server.script(fake.answer(["a", "b", "c"]))
    shown: list[str] = []

    def listener(piece: str) -> None:
        shown.append(piece)
        raise RuntimeError("no more room")

    assert (await call(provider, on_delta=listener)).text == "abc"
    assert shown == ["a"]


@pytest.mark.parametrize(
    "text", ['```json\n{"value": 1}\n```', '<think>hm, {</think>\n{"value": 1}', ' {"value": 1}\n']
)
async def test_wrapping_of_servers_without_json_mode_is_taken_off(
    server: FakeOpenAI, provider: OpenAICompatibleProvider, text: str
) -> None:
    server.script(fake.answer(text))
    assert (await call(provider, schema=Value)).parsed == Value(value=1)


# -- the server's dialect


async def test_refused_json_schema_falls_back_to_json_object_and_is_remembered(
    server: FakeOpenAI, provider: OpenAICompatibleProvider
) -> None:
    refusal = fake.status(400, message="This response_format type is unavailable now")
    server.script(refusal, fake.answer({"value": 1}), fake.answer({"value": 2}))
    first = await call(provider, schema=Value)
    second = await call(provider, schema=Value)
    assert (first.usage.requests, second.usage.requests) == (2, 1)
    assert [r.body["response_format"]["type"] for r in server.requests] == [
        "json_schema",
        "json_object",
        "json_object",
    ]
    system = server.last.body["messages"][0]
    assert system["role"] == "system"
    assert system["content"].startswith("Be brief.")
    assert "JSON Schema" in system["content"]


async def test_server_without_any_json_mode_gets_the_schema_in_the_prompt(
    server: FakeOpenAI, provider: OpenAICompatibleProvider
) -> None:
    refusal = fake.status(422, message="Extra inputs are not permitted", param="response_format")
    server.script(refusal, refusal, fake.answer({"value": 1}))
    await call(provider, schema=Value, messages=(Message("user", PROMPT),))
    assert "response_format" not in server.last.body
    assert [m["role"] for m in server.last.body["messages"]] == ["system", "user"]


@pytest.mark.parametrize(
    ("message", "gone", "instead"),
    [
        (
            "Use 'max_completion_tokens' instead of 'max_tokens'",
            "max_tokens",
            "max_completion_tokens",
        ),
        ("Unsupported value: 'temperature'", "temperature", None),
        ("Unknown field stream_options", "stream_options", None),
    ],
)
async def test_other_refused_parts_are_left_out(
    server: FakeOpenAI,
    provider: OpenAICompatibleProvider,
    message: str,
    gone: str,
    instead: str | None,
) -> None:
    server.script(fake.status(400, message=message), fake.answer("yes"))
    await call(provider, max_output_tokens=5, temperature=0.1, on_delta=lambda _piece: None)
    assert gone in server.requests[0].body
    assert gone not in server.last.body
    assert instead is None or server.last.body[instead] == 5


async def test_refusal_of_the_request_itself_is_not_tried_in_another_form(
    server: FakeOpenAI, provider: OpenAICompatibleProvider
) -> None:
    server.script(fake.status(400, message="too many tokens", error_code="context_length_exceeded"))
    error = await failure(provider, schema=Value)
    assert type(error) is ProviderRejected
    assert not error.retryable
    assert error.details["provider_code"] == "context_length_exceeded"
    assert len(server.requests) == 1


async def test_form_is_not_remembered_when_the_simpler_one_was_refused_too(
    server: FakeOpenAI, provider: OpenAICompatibleProvider
) -> None:
    unexplained = fake.status(400, body=b"")
    server.script(unexplained, unexplained, unexplained, fake.answer({"value": 1}))
    assert type(await failure(provider, schema=Value)) is ProviderRejected
    await call(provider, schema=Value)
    assert server.last.body["response_format"]["type"] == "json_schema"


# -- WL-10, WL-11: one request, and the truth about it


async def test_silent_server_costs_one_request_and_ends_within_the_limit(
    server: FakeOpenAI, provider: OpenAICompatibleProvider
) -> None:
    server.script(fake.silent())
    error = await failure(provider, timeout_s=3)
    assert type(error) is ProviderTimeout
    await server.await_hang_ups(1)
    assert len(server.requests) == 1


async def test_stream_that_falls_silent_times_out(
    server: FakeOpenAI, provider: OpenAICompatibleProvider
) -> None:
    server.script(fake.stream_then_wait())
    pieces: list[str] = []
    error = await failure(provider, timeout_s=1, on_delta=pieces.append)
    assert type(error) is ProviderTimeout
    assert pieces == ["Hello"]
    await server.await_hang_ups(1)


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("reply", [fake.close_after_request(), fake.cut_off()])
async def test_lost_answer_is_outcome_unknown(
    server: FakeOpenAI, provider: OpenAICompatibleProvider, reply: fake.Reply, streaming: bool
) -> None:
    server.script(reply)
    listener: dict[str, Any] = {"on_delta": lambda _piece: None} if streaming else {}
    error = await failure(provider, schema=Value, **listener)
    assert type(error) is ProviderOutcomeUnknown
    assert len(server.requests) == 1
    assert error.details["requests"] == 1


async def test_repeated_operation_carries_the_same_key(
    server: FakeOpenAI, provider: OpenAICompatibleProvider
) -> None:
    server.script(fake.close_after_request(), fake.answer())
    await failure(provider)
    await call(provider)
    assert [r.headers["idempotency-key"] for r in server.requests] == ["op-1", "op-1"]


async def test_refused_connection_was_not_sent() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        provider = OpenAICompatibleProvider(
            base_url=f"http://127.0.0.1:{port}/v1", default_model="m", trust_env=False
        )
        error = await failure(provider)
    assert type(error) is ProviderUnavailable
    assert error.details["requests"] == 0
    await provider.aclose()


async def test_unfinished_handshake_was_not_sent() -> None:
    # The kernel takes the connection, nobody answers TLS: the limit ends before any byte of the request.
    with socket.create_server(("127.0.0.1", 0)) as mute:
        provider = OpenAICompatibleProvider(
            base_url=f"https://127.0.0.1:{mute.getsockname()[1]}/v1",
            default_model="m",
            trust_env=False,
            connect_s=0.2,
        )
        error = await failure(provider)
        await provider.aclose()
    assert type(error) is ProviderUnavailable
    assert error.details["requests"] == 0


async def test_cancelling_the_task_aborts_the_http_call(
    server: FakeOpenAI, provider: OpenAICompatibleProvider
) -> None:
    server.script(fake.silent())
    task = asyncio.create_task(call(provider))
    await server.await_requests(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await server.await_hang_ups(1)


async def test_many_calls_share_one_provider_with_a_key_each(
    server: FakeOpenAI, provider: OpenAICompatibleProvider
) -> None:
    server.default = fake.echo()

    async def one(number: int) -> str:
        credential = Credential("user_deepseek_key", SecretStr(f"sk-{number}"))
        request = ask(operation_id=f"op-{number}")
        result = await provider.generate(request, credential=credential, timeout_s=20)
        headers = json.loads(result.text)["headers"]
        return f"{headers['authorization']} {headers['idempotency-key']}"

    seen = await asyncio.gather(*(one(number) for number in range(20)))
    assert seen == [f"Bearer sk-{number} op-{number}" for number in range(20)]


async def test_provider_goes_on_in_a_new_event_loop(server: FakeOpenAI) -> None:
    provider = OpenAICompatibleProvider(
        base_url=server.base_url, default_model="m", trust_env=False
    )

    async def once() -> str:
        result = await call(provider)
        await provider.aclose()
        return result.text

    assert await asyncio.to_thread(asyncio.run, once()) == "Hello."
    assert await asyncio.to_thread(asyncio.run, once()) == "Hello."


# -- statuses


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (fake.status(401), CredentialInvalid),
        (fake.status(403), CredentialInvalid),
        (fake.status(402, message="Insufficient Balance"), CredentialQuotaExhausted),
        (fake.status(429, kind="insufficient_quota"), CredentialQuotaExhausted),
        (fake.status(429, error_code="insufficient_quota"), CredentialQuotaExhausted),
        (fake.status(429), ProviderRateLimited),
        (fake.status(503, headers={"Retry-After": "2"}), ProviderRateLimited),
        (fake.status(400), ProviderRejected),
        (fake.status(404), ProviderRejected),
        (fake.status(413), ProviderRejected),
        (fake.status(422), ProviderRejected),
        (fake.status(400, error_code="content_filter"), ContentFiltered),
        (fake.status(400, message="Content Exists Risk"), ContentFiltered),
        (fake.status(408), ProviderTimeout),
        (fake.status(409), ProviderError),
        (fake.status(500), ProviderError),
        (fake.status(503), ProviderError),
        (fake.status(504), ProviderTimeout),
        (fake.status(500, body=b"<html>down</html>"), ProviderError),
    ],
)
async def test_status_has_its_class(
    server: FakeOpenAI,
    provider: OpenAICompatibleProvider,
    reply: fake.Reply,
    expected: type[JobError],
) -> None:
    server.script(reply)
    assert type(await failure(provider)) is expected
    assert len(server.requests) == 1


@pytest.mark.parametrize("code", [301, 307, 308])
async def test_redirect_is_not_followed(
    server: FakeOpenAI, provider: OpenAICompatibleProvider, code: int
) -> None:
    with FakeOpenAI() as elsewhere:
        server.script(
            fake.status(code, headers={"Location": f"{elsewhere.base_url}/chat/completions"})
        )
        assert type(await failure(provider)) is ProviderRejected
        assert elsewhere.requests == []


@pytest.mark.parametrize(
    ("headers", "expected_ms"),
    [
        ({"Retry-After": "30"}, 30_000),
        ({"Retry-After": "1.5"}, 1_500),
        ({"retry-after-ms": "250", "Retry-After": "1"}, 250),
        ({"Retry-After": "999999"}, 3_600_000),
        ({"Retry-After": "-5"}, 0),
        ({"Retry-After": "nan"}, None),
        ({"Retry-After": "soon"}, None),
        ({}, None),
        (
            {
                "Date": "Wed, 21 Oct 2015 07:28:00 GMT",
                "Retry-After": "Wed, 21 Oct 2015 07:28:45 GMT",
            },
            45_000,
        ),
        (
            {
                "Date": "Wed, 21 Oct 2015 07:28:00 GMT",
                "Retry-After": "Wed, 21 Oct 2015 07:27:00 GMT",
            },
            0,
        ),
        (
            {
                "Date": "Wed, 21 Oct 2015 07:28:00 GMT",
                "Retry-After": "Wed, 21 Oct 2099 07:27:00 GMT",
            },
            3_600_000,
        ),
        ({"Retry-After": "Wed, 21 Oct 2015 07:28:45 GMT"}, None),
    ],
)
async def test_retry_after_is_read_in_every_form_and_bounded(
    server: FakeOpenAI,
    provider: OpenAICompatibleProvider,
    headers: dict[str, str],
    expected_ms: int | None,
) -> None:
    server.script(fake.status(429, headers=headers))
    error = await failure(provider)
    assert isinstance(error, ProviderRateLimited)
    assert error.retry_after_ms == expected_ms


# -- answers that are no success


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (fake.answer({"value": 1}, finish_reason="length"), OutputTruncated),
        (fake.answer({"value": 1}, finish_reason="content_filter"), ContentFiltered),
        (fake.answer({"value": 1}, finish_reason=None), ProviderOutcomeUnknown),
        (fake.answer({"value": 1}, finish_reason="tool_calls"), ProviderError),
        (fake.answer("", refusal="I cannot help with that."), ContentFiltered),
        (fake.answer(""), OutputInvalid),
    ],
)
async def test_valid_json_alone_is_no_success(
    server: FakeOpenAI,
    provider: OpenAICompatibleProvider,
    reply: fake.Reply,
    expected: type[JobError],
    streaming: bool,
) -> None:
    server.script(reply)
    listener: dict[str, Any] = {"on_delta": lambda _piece: None} if streaming else {}
    error = await failure(provider, schema=Value, **listener)
    assert type(error) is expected
    # It was generated, so it is billed: the usage is not lost with the answer.
    assert error.details["usage"] == Usage(11, 7, "fake-1")


@pytest.mark.parametrize(
    "text",
    [
        '{"value": NaN}',
        '{"value": Infinity}',
        '{"value": -Infinity}',
        '{"value": 1e400}',
        '{"value": 1, "x": [{"y": NaN}]}',
        '{"value": ' + "9" * 5000 + "}",
        "[" * 100_000,
        '{"value": 1',
        "Sure! Here is the JSON you asked for.",
        '{"value": "\\ud800"}',
        '{"value": 1, "note": "too long"}',
        "[]",
        "null",
    ],
)
async def test_unusable_output_is_refused_without_quoting_it(
    server: FakeOpenAI, provider: OpenAICompatibleProvider, text: str
) -> None:
    server.script(fake.answer(text))
    error = await failure(provider, schema=Value)
    assert isinstance(error, OutputInvalid)
    assert error.errors
    assert error.details["usage"] == Usage(11, 7, "fake-1")
    for said in [str(error), *error.errors]:
        assert "too long" not in said
        assert "Sure" not in said


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize(
    "reply",
    [
        fake.raw(b"{not json"),
        fake.raw(b"<html>login</html>", content_type="text/html"),
        fake.raw(b"[]"),
        fake.raw(b'{"choices": []}'),
        fake.raw(b'{"choices": null}'),
        fake.raw(b'{"choices": [{"finish_reason": "stop", "message": {"content": [1]}}]}'),
        fake.stream_events("{broken"),
    ],
)
async def test_answer_off_the_protocol_is_a_provider_error(
    server: FakeOpenAI, provider: OpenAICompatibleProvider, reply: fake.Reply, streaming: bool
) -> None:
    server.script(reply)
    listener: dict[str, Any] = {"on_delta": lambda _piece: None} if streaming else {}
    error = await failure(provider, schema=Value, **listener)
    # An empty stream ends without saying why: that is "unknown", a kind of provider error.
    assert isinstance(error, ProviderError)


async def test_error_event_in_a_stream_is_a_provider_error(
    server: FakeOpenAI, provider: OpenAICompatibleProvider
) -> None:
    event = {"error": {"message": f"overloaded {PROMPT}", "type": "server_error", "code": None}}
    server.script(fake.stream_events(event))
    error = await failure(provider, on_delta=lambda _piece: None)
    assert type(error) is ProviderError
    assert error.details["provider_type"] == "server_error"


# -- secrets


async def test_server_that_repeats_key_and_prompt_cannot_make_us_tell_them(
    server: FakeOpenAI, provider: OpenAICompatibleProvider, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    said = f"Incorrect API key provided: {KEY} for {PROMPT}"
    server.script(fake.status(401, message=said, kind=KEY, error_code=f"bad {KEY}", param=PROMPT))
    error = await failure(provider)
    assert error.details["provider_type"] is None
    server.script(fake.answer({"value": 1, "note": "secret-output"}))
    await failure(provider, schema=Value)
    logged = caplog.text + "".join(repr(vars(record)) for record in caplog.records)
    for secret in (KEY, PROMPT, "secret-output", "127.0.0.1"):
        assert secret not in logged


def test_request_and_credential_show_neither_prompt_nor_key() -> None:
    shown = repr(ask(input={"text": "the input"})) + repr(
        Credential("platform_key", SecretStr(KEY))
    )
    assert PROMPT not in shown
    assert "the input" not in shown
    assert KEY not in shown


async def test_credential_of_another_endpoint_is_refused_unsent(
    server: FakeOpenAI, provider: OpenAICompatibleProvider
) -> None:
    theirs = Credential("user_deepseek_key", SecretStr(KEY), base_url="https://api.deepseek.com")
    with pytest.raises(CredentialInvalid):
        await provider.generate(ask(), credential=theirs, timeout_s=5)
    assert server.requests == []


@pytest.mark.parametrize("secret", [None, SecretStr(""), SecretStr("  ")])
async def test_missing_key_is_refused_unsent(
    server: FakeOpenAI, provider: OpenAICompatibleProvider, secret: SecretStr | None
) -> None:
    with pytest.raises(CredentialMissing):
        await provider.generate(ask(), credential=Credential("platform_key", secret), timeout_s=5)
    assert server.requests == []


async def test_key_that_would_break_out_of_its_header_is_refused_unsent(
    server: FakeOpenAI, provider: OpenAICompatibleProvider
) -> None:
    for secret in ("sk-\r\nX-Evil: 1", "sk-ключ"):
        with pytest.raises(CredentialInvalid):
            await provider.generate(
                ask(), credential=Credential("platform_key", SecretStr(secret)), timeout_s=5
            )
    assert server.requests == []


async def test_own_server_may_be_called_without_a_key(server: FakeOpenAI) -> None:
    provider = OpenAICompatibleProvider(
        base_url=server.base_url, default_model="m", key_required=False, trust_env=False
    )
    await provider.generate(ask(), credential=Credential("platform_key"), timeout_s=20)
    assert "authorization" not in server.last.headers
    await provider.aclose()


@pytest.mark.parametrize(
    "url",
    ["", "api.example.com", "ftp://x/v1", "https://", "https://user:pw@x/v1", "https://x/?k=1"],
)
def test_unusable_base_url_is_refused(url: str) -> None:
    make: Callable[..., Any] = OpenAICompatibleProvider
    with pytest.raises(SettingsError):
        make(base_url=url, default_model="m")
