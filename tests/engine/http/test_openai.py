"""The OpenAI-compatible route, asked by the official client, with a worker and a provider server behind it."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import openai
import pytest
import sqlalchemy as sa
from openai.types.chat import ChatCompletion

from engine.app import AiJobApp
from engine.config import HttpSettings
from engine.lifecycle import views
from engine.lifecycle.outputs import Output
from outbox.base.canonical import canonical_bytes, sha256
from outbox.base.clock import DatabaseClock
from registry.catalog.chat_completion import ChatCompletionOutput
from tests.engine.http.conftest import TLS, MakeWorld, World, settings_for, token_of
from tests.engine.http.test_events import show
from tests.engine.http.test_jobs import start
from tests.support.daemons import Daemons
from tests.support.fake_openai import (
    Exchange,
    FakeOpenAI,
    answer,
    silent,
    status,
)
from tests.support.wait import eventually

HELLO: list[Any] = [{"role": "user", "content": "hello"}]
MakeChat = Callable[..., World]


@pytest.fixture
def provider() -> Iterator[FakeOpenAI]:
    with FakeOpenAI() as server:
        yield server


@pytest.fixture
def make_chat(
    make_world: MakeWorld, provider: FakeOpenAI, clock: DatabaseClock
) -> Iterator[MakeChat]:
    """Function (url, worker=True, **http settings) -> a world whose jobs are run."""
    running: list[Daemons] = []

    def make(url: str, *, worker: bool = True, model: str | None = "fake-1", **http: Any) -> World:
        settings = settings_for(url).model_copy(
            update={
                "openai_base_url": provider.base_url,
                "model": model,
                "http": settings_for(url, **http).http,
            }
        )
        app = AiJobApp(settings=settings, clock=clock)
        world = make_world(url, app=app)
        if worker:
            running.append(Daemons(app).start())
        return world

    yield make
    for daemons in running:
        daemons.close()


@pytest.fixture
def chat(make_chat: MakeChat, migrated_sqlite: str) -> World:
    return make_chat(migrated_sqlite)


def client_of(world: World, subject: str = "u1", **options: Any) -> openai.OpenAI:
    settings: dict[str, Any] = {"max_retries": 0, "timeout": 60} | options
    settings.setdefault("http_client", openai.DefaultHttpxClient(verify=TLS))
    return openai.OpenAI(api_key=token_of(subject), base_url=f"{world.server.url}/v1", **settings)


def key(value: str = "k-1") -> dict[str, str]:
    return {"Idempotency-Key": value}


def jobs_of(world: World) -> int:
    return world.app.uow.read(lambda conn: views.count(conn, views.JobFilter()))


# -- whole answers


def test_answer_comes_with_its_usage_and_is_a_durable_job(
    make_chat: MakeChat, migrated_url: str, provider: FakeOpenAI
) -> None:
    world = make_chat(migrated_url)
    provider.script(answer("Hi there.", usage=(11, 7)))
    with client_of(world) as client:
        got = client.chat.completions.create(
            model="fake-1",
            messages=[{"role": "developer", "content": "Be brief."}, *HELLO],
            temperature=0.5,
            max_completion_tokens=99,
        )

    assert got.choices[0].message.content == "Hi there."
    assert (got.choices[0].finish_reason, got.object) == ("stop", "chat.completion")
    assert got.usage is not None
    assert (got.usage.prompt_tokens, got.usage.completion_tokens, got.usage.total_tokens) == (
        11,
        7,
        18,
    )
    sent = provider.last.body
    assert sent["messages"][0] == {"role": "system", "content": "Be brief."}
    assert (sent["model"], sent["temperature"]) == ("fake-1", 0.5)
    assert 99 in sent.values()
    job = world.app.uow.read(lambda conn: views.page(conn, views.JobFilter()))[0]
    assert got.id == f"chatcmpl-{job.id.hex}"
    assert (job.job_type, job.queue_name, job.lifecycle_status) == (
        "chat_completion", "ai-interactive", "succeeded",
    )  # fmt: skip
    [call] = world.app.uow.read(lambda conn: world.app.usage.calls(conn, job.id))
    assert (call["provider"], call["model"], call["input_tokens"]) == ("openai", "fake-1", 11)


def test_answer_that_the_callers_limit_cut_off_is_an_answer(
    chat: World, provider: FakeOpenAI
) -> None:
    provider.script(answer("Once upon a", finish_reason="length"))
    with client_of(chat) as client:
        got = client.chat.completions.create(model="fake-1", messages=HELLO, max_tokens=3)

    assert (got.choices[0].message.content, got.choices[0].finish_reason) == (
        "Once upon a",
        "length",
    )
    assert len(provider.requests) == 1


def test_text_parts_become_one_message(chat: World, provider: FakeOpenAI) -> None:
    parts: Any = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    with client_of(chat) as client:
        client.chat.completions.create(
            model="fake-1", messages=[{"role": "user", "content": parts}], user="x", seed=7
        )

    assert provider.last.body["messages"] == [{"role": "user", "content": "a\nb"}]


# -- one key, one bill


def test_repeat_with_the_key_gets_the_same_bytes_and_is_billed_once(
    make_chat: MakeChat, migrated_url: str, provider: FakeOpenAI
) -> None:
    world = make_chat(migrated_url)
    provider.script(answer("Hi."))
    with client_of(world) as client:
        raw = [
            client.chat.completions.with_raw_response.create(
                model="fake-1", messages=HELLO, extra_headers=key()
            )
            for _ in range(2)
        ]

    assert raw[0].content == raw[1].content
    assert raw[1].headers["idempotency-replayed"] == "true"
    assert len(provider.requests) == 1
    assert jobs_of(world) == 1


def test_answer_recovered_from_the_job_has_the_same_bytes(
    chat: World, provider: FakeOpenAI, clock: DatabaseClock
) -> None:
    """X56: the first server died before it could keep the answer; the job is the source."""
    provider.script(answer("Hi."))
    with client_of(chat) as client:
        create = client.chat.completions.with_raw_response.create
        first = create(model="fake-1", messages=HELLO, extra_headers=key())
        _forget_the_answer(chat)
        again = create(model="fake-1", messages=HELLO, extra_headers=key())

    assert again.content == first.content
    assert len(provider.requests) == 1


def _forget_the_answer(world: World) -> None:
    """As if the process had died between the job's end and its note of the answer."""
    with world.app.database.begin() as conn:
        conn.execute(
            sa.text(
                "UPDATE idempotency_record SET status = 'running', answer_body = NULL, "
                "lease_until = created_at"
            )
        )


def test_other_body_under_the_key_is_refused(chat: World) -> None:
    with client_of(chat) as client:
        client.chat.completions.create(model="fake-1", messages=HELLO, extra_headers=key())
        with pytest.raises(openai.UnprocessableEntityError) as refused:
            client.chat.completions.create(
                model="fake-1", messages=[*HELLO, *HELLO], extra_headers=key()
            )

    assert refused.value.code == "idempotency_key_reused"


def test_keys_of_two_users_never_meet(chat: World, provider: FakeOpenAI) -> None:
    for subject in ("u1", "u2"):
        with client_of(chat, subject) as client:
            client.chat.completions.create(model="fake-1", messages=HELLO, extra_headers=key())

    assert len(provider.requests) == 2


def test_key_is_good_for_another_run_a_day_later(
    chat: World, provider: FakeOpenAI, clock: DatabaseClock
) -> None:
    with client_of(chat) as client:
        client.chat.completions.create(model="fake-1", messages=HELLO, extra_headers=key())
        clock.advance(86_400_000 + 60_000)
        client.chat.completions.create(model="fake-1", messages=HELLO, extra_headers=key())

    assert len(provider.requests) == 2


def test_same_key_while_the_first_runs_is_told_to_come_back(
    chat: World, provider: FakeOpenAI
) -> None:
    hold = Hold()
    provider.script(hold.reply)
    with client_of(chat) as client:
        first = Asking(client)
        hold.entered.wait(30)
        with pytest.raises(openai.ConflictError) as busy:
            client.chat.completions.create(model="fake-1", messages=HELLO, extra_headers=key())
        hold.gate.set()
        got = first.result()

    assert got.choices[0].message.content == "Hello."
    assert busy.value.code == "idempotency_in_progress"
    assert int(busy.value.response.headers["retry-after"]) >= 1
    assert busy.value.body["job_id"]  # type: ignore[index, call-overload]
    assert len(provider.requests) == 1


class Hold:
    """A reply of the provider that waits until it is let go."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.gate = threading.Event()

    async def reply(self, exchange: Exchange) -> None:
        self.entered.set()
        await asyncio.to_thread(self.gate.wait, 60)
        await answer()(exchange)


class Asking:
    """A request that is under way on a thread."""

    def __init__(self, client: openai.OpenAI, **more: Any) -> None:
        self._got: Any = None
        self._thread = threading.Thread(target=self._ask, args=(client, more))
        self._thread.start()

    def _ask(self, client: openai.OpenAI, more: dict[str, Any]) -> None:
        wanted: dict[str, Any] = {"model": "fake-1", "messages": HELLO, "extra_headers": key()}
        try:
            self._got = client.chat.completions.create(**wanted | more)
        except openai.OpenAIError as error:
            self._got = error

    def result(self) -> ChatCompletion:
        self._thread.join(60)
        return self._got  # type: ignore[no-any-return]


def test_slow_provider_ends_in_504_and_a_repeat_with_the_key_attaches(
    make_chat: MakeChat, migrated_url: str, provider: FakeOpenAI
) -> None:
    world = make_chat(migrated_url, chat_wait_ms=500)
    hold = Hold()
    provider.script(hold.reply)
    with client_of(world) as client:
        with pytest.raises(openai.InternalServerError) as late:
            client.chat.completions.create(model="fake-1", messages=HELLO, extra_headers=key())
        assert late.value.status_code == 504
        assert late.value.response.headers["x-should-retry"] == "true"
        hold.gate.set()
        with world.client() as api:
            job = api.get(
                late.value.response.headers["location"], headers={"prefer": "wait=30"}
            ).json()
        got = client.chat.completions.create(model="fake-1", messages=HELLO, extra_headers=key())

    assert job["lifecycleStatus"] == "succeeded"
    assert got.choices[0].message.content == "Hello."
    assert got.id == f"chatcmpl-{job['jobId'].replace('-', '')}"
    assert len(provider.requests) == 1
    assert jobs_of(world) == 1


def test_client_library_that_retries_by_itself_attaches_too(
    make_chat: MakeChat, migrated_sqlite: str, provider: FakeOpenAI
) -> None:
    world = make_chat(migrated_sqlite, chat_wait_ms=300)
    hold = Hold()
    provider.script(hold.reply)
    with client_of(world, max_retries=5) as client:
        asking = Asking(client)
        hold.entered.wait(30)
        hold.gate.set()
        got = asking.result()

    assert got.choices[0].message.content == "Hello."
    assert len(provider.requests) == 1


def test_late_answer_without_a_key_is_not_asked_for_again(
    make_chat: MakeChat, migrated_sqlite: str, provider: FakeOpenAI
) -> None:
    world = make_chat(migrated_sqlite, chat_wait_ms=300)
    provider.script(silent())
    with client_of(world, max_retries=3) as client, pytest.raises(openai.InternalServerError):
        client.chat.completions.create(model="fake-1", messages=HELLO)

    assert jobs_of(world) == 1


# -- failures


@pytest.mark.parametrize(
    ("replies", "error", "code"),
    [
        ([status(400)] * 3, openai.BadRequestError, "provider_rejected"),
        ([status(401)] * 3, openai.InternalServerError, "credential_invalid"),
        ([answer(finish_reason="content_filter")] * 3, openai.BadRequestError, "content_filter"),
    ],
)
def test_failure_is_told_in_openais_shape(
    chat: World, provider: FakeOpenAI, replies: list[Any], error: Any, code: str
) -> None:
    provider.script(*replies)
    with client_of(chat) as client, pytest.raises(error) as failed:
        client.chat.completions.create(model="fake-1", messages=HELLO)

    assert failed.value.code == code
    assert "127.0.0.1" not in failed.value.response.text


def test_failed_answer_is_not_kept_and_a_repeat_runs_anew(
    chat: World, provider: FakeOpenAI
) -> None:
    """AH-4."""
    provider.script(status(400), answer("Better."))
    with client_of(chat) as client:
        with pytest.raises(openai.BadRequestError):
            client.chat.completions.create(model="fake-1", messages=HELLO, extra_headers=key())
        got = client.chat.completions.create(model="fake-1", messages=HELLO, extra_headers=key())

    assert got.choices[0].message.content == "Better."
    assert jobs_of(chat) == 2


@pytest.mark.parametrize(
    ("change", "code", "param"),
    [
        ({"n": 2}, "unsupported_parameter", "n"),
        ({"stop": ["x"]}, "unsupported_parameter", "stop"),
        ({"tools": [{"type": "function"}]}, "unsupported_parameter", "tools"),
        ({"response_format": {"type": "json_object"}}, "unsupported_parameter", "response_format"),
        ({"wonder": True}, "unsupported_parameter", "wonder"),
        ({"messages": []}, "invalid_value", "messages"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "invalid_value", "messages[0].role"),
        ({"temperature": 3}, "invalid_value", "temperature"),
        ({"max_tokens": 0}, "invalid_value", "max_tokens"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(
    chat: World, provider: FakeOpenAI, change: dict[str, Any], code: str, param: str
) -> None:
    body = {"model": "fake-1", "messages": HELLO} | change
    with chat.client() as client:
        got = client.post("/v1/chat/completions", json=body)

    assert got.status_code == 400
    error = got.json()["error"]
    assert (error["code"], error["param"], error["type"]) == (code, param, "invalid_request_error")
    assert provider.requests == []


def test_harmless_parameters_are_taken(chat: World) -> None:
    with client_of(chat) as client:
        client.chat.completions.create(
            model="fake-1", messages=HELLO, n=1, top_p=1, presence_penalty=0, logprobs=False,
            tools=[], response_format={"type": "text"}, user="x", metadata={"a": "b"},
        )  # fmt: skip


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'"x"', b"\xff", b"{" * 10_000])
def test_broken_body_is_refused_in_openais_shape(chat: World, body: bytes) -> None:
    with chat.client() as client:
        got = client.post(
            "/v1/chat/completions", content=body, headers={"content-type": "application/json"}
        )

    assert got.status_code == 400
    assert set(got.json()["error"]) == {"message", "type", "param", "code"}


def test_body_that_is_too_large_is_refused_announced_or_not(
    make_chat: MakeChat, migrated_sqlite: str
) -> None:
    world = make_chat(migrated_sqlite, body_limit_bytes=2_000)

    def parts() -> Iterator[bytes]:
        for _ in range(50):
            yield b" " * 100

    with world.client() as client:
        headers = {"content-type": "application/json"}
        whole = client.post("/v1/chat/completions", content=b" " * 5_000, headers=headers)
        chunked = client.post("/v1/chat/completions", content=parts(), headers=headers)
        keyed = client.post("/v1/chat/completions", content=parts(), headers=headers | key())

    for got in (whole, chunked, keyed):
        assert (got.status_code, got.json()["error"]["code"]) == (413, "request_too_large")


def test_foreign_token_is_refused_in_openais_shape(chat: World) -> None:
    client = openai.OpenAI(api_key="sk-foreign", base_url=f"{chat.server.url}/v1", max_retries=0)
    with client, pytest.raises(openai.AuthenticationError) as refused:
        client.chat.completions.create(model="fake-1", messages=HELLO)

    assert refused.value.code == "invalid_api_key"


# -- models


def test_offered_models_are_listed_and_others_are_not_found(
    make_chat: MakeChat, migrated_sqlite: str, provider: FakeOpenAI
) -> None:
    world = make_chat(migrated_sqlite, models=("small", "large"))
    with client_of(world) as client:
        listed = [model.id for model in client.models.list()]
        assert client.models.retrieve("small").id == "small"
        with pytest.raises(openai.NotFoundError):
            client.models.retrieve("huge")
        with pytest.raises(openai.NotFoundError) as refused:
            client.chat.completions.create(model="huge", messages=HELLO)
        client.chat.completions.create(model="large", messages=HELLO)

    assert listed == ["small", "large", "default"]
    assert (refused.value.code, refused.value.param) == ("model_not_found", "model")
    assert [request.body["model"] for request in provider.requests] == ["large"]


def test_without_a_configured_model_the_provider_judges_the_name(
    make_chat: MakeChat, migrated_sqlite: str, provider: FakeOpenAI
) -> None:
    world = make_chat(migrated_sqlite, model=None)
    with client_of(world) as client:
        client.chat.completions.create(model="anything", messages=HELLO)

    assert provider.last.body["model"] == "anything"


# -- without a worker or without Redis


def test_request_is_taken_while_nobody_works(make_chat: MakeChat, migrated_sqlite: str) -> None:
    world = make_chat(migrated_sqlite, worker=False, chat_wait_ms=200)
    with client_of(world) as client, pytest.raises(openai.InternalServerError) as late:
        client.chat.completions.create(model="fake-1", messages=HELLO)

    assert late.value.status_code == 504
    with world.client() as api:
        assert (
            api.get(late.value.response.headers["location"]).json()["lifecycleStatus"] == "queued"
        )


def test_settings_of_the_edge_have_sound_defaults() -> None:
    defaults = HttpSettings()

    assert defaults.body_limit_bytes >= 1_000_000
    assert defaults.jwt_secret is None


# -- streams


def text_of(stream: Any) -> str:
    return "".join(c.choices[0].delta.content or "" for c in stream if c.choices)


def test_chunks_come_as_the_provider_sends_them(
    make_chat: MakeChat, migrated_url: str, provider: FakeOpenAI
) -> None:
    world = make_chat(migrated_url)
    steps = Steps("Once ", "upon ", "a time.")
    provider.script(steps.reply)
    with client_of(world) as client:
        stream = client.chat.completions.create(
            model="fake-1", messages=HELLO, stream=True, stream_options={"include_usage": True}
        )
        chunks = []
        for chunk in stream:
            chunks.append(chunk)
            if chunk.choices and chunk.choices[0].delta.content:
                steps.go_on()

    contents = [
        c.choices[0].delta.content for c in chunks if c.choices and c.choices[0].delta.content
    ]
    assert contents == ["Once ", "upon ", "a time."]
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.total_tokens == 18
    assert {c.system_fingerprint for c in chunks if c.choices and c.choices[0].delta.content} == {
        "epoch_1"
    }
    assert len({c.id for c in chunks}) == 1


class Steps:
    """A streamed reply whose next piece waits until the reader has had the last one."""

    def __init__(self, *pieces: str) -> None:
        self._pieces = pieces
        self._had = threading.Semaphore(1)

    def go_on(self) -> None:
        self._had.release()

    async def reply(self, exchange: Exchange) -> None:
        head = {"Content-Type": "text/event-stream", "Connection": "close"}
        await exchange.head(200, head)
        base: dict[str, Any] = {
            "id": "c",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "fake-1",
        }
        for piece in self._pieces:
            await asyncio.to_thread(self._had.acquire, True, 30)
            choice = {"index": 0, "delta": {"content": piece}, "finish_reason": None}
            await self._event(exchange, base | {"choices": [choice]})
        end = {"index": 0, "delta": {}, "finish_reason": "stop"}
        await self._event(exchange, base | {"choices": [end]})
        usage = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
        await self._event(exchange, base | {"choices": [], "usage": usage})
        await exchange.write(b"data: [DONE]\n\n")

    @staticmethod
    async def _event(exchange: Exchange, body: dict[str, Any]) -> None:
        await exchange.write(f"data: {json.dumps(body)}\n\n".encode())


def test_stream_is_repeated_with_its_key_and_billed_once(chat: World, provider: FakeOpenAI) -> None:
    provider.script(answer(["One ", "two."]))
    with client_of(chat) as client:
        texts = [
            text_of(
                client.chat.completions.create(
                    model="fake-1", messages=HELLO, stream=True, extra_headers=key()
                )
            )
            for _ in range(2)
        ]

    assert texts == ["One two.", "One two."]
    assert len(provider.requests) == 1
    assert jobs_of(chat) == 1


def test_reader_that_hangs_up_loses_nothing(chat: World, provider: FakeOpenAI) -> None:
    """The job goes on without its reader; the repeat gets the whole answer, from its start."""
    steps = Steps("Once ", "upon ", "a time.")
    provider.script(steps.reply)
    with client_of(chat) as client:
        stream = client.chat.completions.create(
            model="fake-1", messages=HELLO, stream=True, extra_headers=key()
        )
        for chunk in stream:
            if chunk.choices and chunk.choices[0].delta.content:
                break
        stream.close()
        for _ in range(3):
            steps.go_on()
    with client_of(chat, max_retries=10) as client:
        again = client.chat.completions.create(
            model="fake-1", messages=HELLO, stream=True, extra_headers=key()
        )
        assert text_of(again) == "Once upon a time."
    assert len(provider.requests) == 1


def test_failure_inside_a_stream_raises_in_the_client(chat: World, provider: FakeOpenAI) -> None:
    provider.script(status(400))
    with client_of(chat) as client:
        stream = client.chat.completions.create(model="fake-1", messages=HELLO, stream=True)
        with pytest.raises(openai.APIError) as failed:
            list(stream)

    assert failed.value.code == "provider_rejected"


def test_wrong_request_for_a_stream_is_refused_before_it_begins(chat: World) -> None:
    with client_of(chat) as client, pytest.raises(openai.NotFoundError):
        client.chat.completions.create(model="huge", messages=HELLO, stream=True)


def test_stream_that_nobody_feeds_ends_with_an_error(
    make_chat: MakeChat, migrated_sqlite: str
) -> None:
    world = make_chat(migrated_sqlite, worker=False, chat_wait_ms=300)
    with client_of(world) as client:
        stream = client.chat.completions.create(model="fake-1", messages=HELLO, stream=True)
        with pytest.raises(openai.APIError) as late:
            list(stream)

    assert late.value.code == "job_not_finished"


def test_curl_can_read_the_raw_stream(chat: World, provider: FakeOpenAI) -> None:
    provider.script(answer(["Hi."]))
    with chat.client() as client:
        body = {"model": "fake-1", "messages": HELLO, "stream": True}
        got: httpx2.Response = client.post("/v1/chat/completions", json=body)

    lines = [line for line in got.text.splitlines() if line and not line.startswith(":")]
    assert got.headers["content-type"].startswith("text/event-stream")
    assert all(line.startswith("data: ") for line in lines)
    assert lines[-1] == "data: [DONE]"


# -- take-overs, by hand: no worker, the test is both of them


def streamed_job(world: World) -> Any:
    """The newest job, and its claim by a first worker."""
    found = eventually(lambda: world.app.uow.read(lambda conn: views.page(conn, views.JobFilter())))
    return found[0], start(world, found[0])


def finish(world: World, job: Any, lease: Any, content: str) -> None:
    stored = canonical_bytes(ChatCompletionOutput(content=content).model_dump(mode="json"))

    def unit(conn: sa.Connection) -> None:
        output = Output(stored, sha256(stored), "1", "1", 30)
        world.app.outputs.insert(conn, [(job.id, output)])
        assert world.app.lifecycle.mark_succeeded(conn, [lease]) == 1

    world.app.uow.run(unit)


class StreamReader:
    """Reads a stream on a thread, piece by piece."""

    def __init__(self, client: openai.OpenAI) -> None:
        self.text = ""
        self.error: openai.APIError | None = None
        self._thread = threading.Thread(target=self._read, args=(client,))
        self._thread.start()

    def _read(self, client: openai.OpenAI) -> None:
        stream = client.chat.completions.create(
            model="fake-1", messages=HELLO, stream=True, extra_headers=key()
        )
        try:
            for chunk in stream:
                self.text += chunk.choices[0].delta.content or ""
        except openai.APIError as error:
            self.error = error

    def has(self, text: str) -> None:
        eventually(lambda: self.text == text, message=lambda: repr(self.text))

    def ended(self) -> None:
        self._thread.join(30)
        assert not self._thread.is_alive()


@pytest.mark.parametrize(
    ("second", "committed", "read", "code"),
    [
        ("Once upon a", "Once upon a time", "Once upon a time", None),
        ("There was", "There was a time", "Once ", "stream_restarted"),
    ],
)
def test_take_over_continues_the_stream_or_ends_it_and_never_mixes_answers(
    make_chat: MakeChat,
    migrated_url: str,
    clock: DatabaseClock,
    second: str,
    committed: str,
    read: str,
    code: str | None,
) -> None:
    world = make_chat(migrated_url, worker=False, chat_wait_ms=30_000)
    with client_of(world) as client:
        reader = StreamReader(client)
        job, lease = streamed_job(world)
        show(world, job, lease.epoch, "Once ")
        reader.has("Once ")
        clock.advance(120_000)
        job = world.app.jobs.get(job.id)
        lease = start(world, job)
        show(world, job, lease.epoch, second)
        if code is None:
            reader.has(second)
        finish(world, job, lease, committed)
        reader.ended()

        assert reader.text == read
        assert (None if reader.error is None else reader.error.code) == code
        again = client.chat.completions.create(
            model="fake-1", messages=HELLO, stream=True, extra_headers=key()
        )
        assert text_of(again) == committed
    assert jobs_of(world) == 1
