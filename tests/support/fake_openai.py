"""A chat completions server of our own, over real HTTP, that does what a test tells it.

    with FakeOpenAI() as server:
        server.script(status(429, headers={"Retry-After": "30"}), answer('{"value": 1}'))
        ... AIJOBS_..._BASE_URL = server.base_url ...
        assert server.requests[0].headers["idempotency-key"] == "..."

Each request takes the next reply of the script; when the script is used up, `server.default` answers all others.
The same `answer(...)` comes whole or as a stream, as the request asks. The server runs in a thread of its own, so it
serves sync tests, async tests and child processes alike; every reply and request is safe to look at from any thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.support.wait import PATIENCE_S, eventually


@dataclass(frozen=True)
class ReceivedRequest:
    """One request as it came. Header names are in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def streaming(self) -> bool:
        """Whether the client asked for a stream."""
        return bool(self.body.get("stream"))

    @property
    def key(self) -> str | None:
        """The API key that was sent."""
        return self.headers.get("authorization", "").removeprefix("Bearer ") or None


class Exchange:
    """One request together with the way back to its client."""

    def __init__(
        self,
        request: ReceivedRequest,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self.request = request
        self._reader = reader
        self._writer = writer

    async def head(self, code: int, headers: dict[str, str]) -> None:
        lines = [
            f"HTTP/1.1 {code} Whatever",
            *(f"{name}: {value}" for name, value in headers.items()),
        ]
        await self.write(("\r\n".join(lines) + "\r\n\r\n").encode())

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def send(self, code: int, body: bytes, headers: dict[str, str]) -> None:
        """Send a whole response."""
        await self.head(code, {"Content-Length": str(len(body)), "Connection": "close"} | headers)
        await self.write(body)

    async def gone(self) -> None:
        """Wait until the client has hung up (it sends nothing more) or the server is closed."""
        await self._reader.read()
        raise ConnectionResetError("the client has hung up")


#: What the server does with a request. Write your own as `async def reply(exchange): ...`.
Reply = Callable[[Exchange], Awaitable[None]]


# -- replies


def answer(
    content: str | dict[str, Any] | Sequence[str] = "Hello.",
    *,
    finish_reason: str | None = "stop",
    refusal: str | None = None,
    usage: tuple[int, int] | None = (11, 7),
    model: str = "fake-1",
    request_id: str = "req_fake",
) -> Reply:
    """A normal answer: text, an object (sent as JSON) or the pieces of a stream."""
    text = json.dumps(content) if isinstance(content, dict) else content
    pieces = (
        [text[at : at + 8] for at in range(0, len(text), 8)]
        if isinstance(text, str)
        else list(text)
    )
    counts = usage and {
        "prompt_tokens": usage[0],
        "completion_tokens": usage[1],
        "total_tokens": sum(usage),
    }
    base: dict[str, Any] = {"id": "chatcmpl-1", "created": 1, "model": model}

    async def whole(exchange: Exchange) -> None:
        message = {"role": "assistant", "content": "".join(pieces), "refusal": refusal}
        choice = {"index": 0, "message": message, "finish_reason": finish_reason}
        body = base | {"object": "chat.completion", "choices": [choice], "usage": counts}
        await exchange.send(200, json.dumps(body).encode(), _json_headers(request_id))

    async def streamed(exchange: Exchange) -> None:
        chunk = base | {"object": "chat.completion.chunk"}
        await exchange.head(200, _stream_headers(request_id))
        for piece in pieces:
            await exchange.write(_event(chunk | _choice({"content": piece})))
        if refusal:
            await exchange.write(_event(chunk | _choice({"refusal": refusal})))
        if finish_reason:
            await exchange.write(_event(chunk | _choice({}, finish_reason)))
        if counts and exchange.request.body.get("stream_options"):
            await exchange.write(_event(chunk | {"choices": [], "usage": counts}))
        await exchange.write(b"data: [DONE]\n\n")

    async def reply(exchange: Exchange) -> None:
        await (streamed if exchange.request.streaming else whole)(exchange)

    return reply


def status(
    code: int,
    *,
    message: str = "Something is wrong.",
    kind: str | None = None,
    error_code: str | None = None,
    param: str | None = None,
    headers: dict[str, str] | None = None,
    body: bytes | None = None,
) -> Reply:
    """An HTTP error with the usual error object, or with `body` as it is."""
    error = {"message": message, "type": kind, "code": error_code, "param": param}
    data = json.dumps({"error": error}).encode() if body is None else body

    async def reply(exchange: Exchange) -> None:
        await exchange.send(code, data, _json_headers("req_error") | (headers or {}))

    return reply


def raw(body: bytes, *, content_type: str = "application/json", code: int = 200) -> Reply:
    """Any bytes as the body of a response: broken JSON, a proxy's HTML page."""

    async def reply(exchange: Exchange) -> None:
        await exchange.send(code, body, {"Content-Type": content_type})

    return reply


def silent() -> Reply:
    """Read the request and never answer; ends when the client hangs up."""

    async def reply(exchange: Exchange) -> None:
        await exchange.gone()

    return reply


def close_after_request() -> Reply:
    """Read the request, then close the connection without a byte."""

    async def reply(exchange: Exchange) -> None:
        return None

    return reply


def cut_off(content: str = '{"value": 1}') -> Reply:
    """Begin a normal answer and close the connection in the middle of it, streamed or not."""

    async def reply(exchange: Exchange) -> None:
        if exchange.request.streaming:
            await exchange.head(200, _stream_headers("req_cut"))
            await exchange.write(
                _event(
                    {"id": "1", "choices": [], "model": "fake-1"} | _choice({"content": content})
                )
            )
            await exchange.write(b"40\r\ndata: ")
        else:
            await exchange.head(
                200, {"Content-Type": "application/json", "Content-Length": "10000"}
            )
            await exchange.write(content.encode())

    return reply


def stream_events(*events: dict[str, Any] | str, done: bool = True) -> Reply:
    """A stream of exactly these events; a text goes in as it is."""

    async def reply(exchange: Exchange) -> None:
        await exchange.head(200, _stream_headers("req_events"))
        for event in events:
            await exchange.write(_event(event))
        await exchange.write(b"data: [DONE]\n\n" if done else b"")

    return reply


def stream_then_wait(content: str = "Hello") -> Reply:
    """Stream one piece, then stay silent until the client hangs up."""

    async def reply(exchange: Exchange) -> None:
        await exchange.head(200, _stream_headers("req_wait"))
        await exchange.write(_event({"id": "1", "model": "fake-1"} | _choice({"content": content})))
        await exchange.gone()

    return reply


def echo() -> Reply:
    """Answer with the request's headers and body as the text, as JSON."""

    async def reply(exchange: Exchange) -> None:
        seen = {"headers": exchange.request.headers, "body": exchange.request.body}
        await answer(json.dumps(seen))(exchange)

    return reply


def by_prompt(choose: Callable[[str], Reply]) -> Reply:
    """Choose the reply by the last message's text, for tests whose calls come in no fixed order."""

    async def reply(exchange: Exchange) -> None:
        await choose(str(exchange.request.body["messages"][-1]["content"]))(exchange)

    return reply


def _json_headers(request_id: str) -> dict[str, str]:
    return {"Content-Type": "application/json", "x-request-id": request_id}


def _stream_headers(request_id: str) -> dict[str, str]:
    # No length and "close": the stream ends with the connection.
    return {"Content-Type": "text/event-stream", "x-request-id": request_id, "Connection": "close"}


def _choice(delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]}


def _event(data: dict[str, Any] | str) -> bytes:
    text = data if isinstance(data, str) else json.dumps(data)
    return f"data: {text}\n\n".encode()


# -- the server


@dataclass
class _State:
    script: deque[Reply] = field(default_factory=deque)
    requests: list[ReceivedRequest] = field(default_factory=list)
    hang_ups: int = 0


class FakeOpenAI:
    """The server; a context manager. `port` and `base_url` are known once it is entered."""

    def __init__(self, *replies: Reply) -> None:
        """Take the script to begin with."""
        #: Answers every request for which the script has no reply left.
        self.default: Reply = answer()
        self.port = 0
        self._state = _State(script=deque(replies))
        self._lock = threading.Lock()
        self._loop = asyncio.new_event_loop()
        self._closing = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="fake-openai", daemon=True)
        self._ready = threading.Event()

    @property
    def base_url(self) -> str:
        """What a client is configured with."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def requests(self) -> list[ReceivedRequest]:
        """All requests so far, in the order they came."""
        with self._lock:
            return list(self._state.requests)

    @property
    def hang_ups(self) -> int:
        """How often a client closed its connection before it had a whole answer."""
        with self._lock:
            return self._state.hang_ups

    @property
    def last(self) -> ReceivedRequest:
        """The latest request."""
        return self.requests[-1]

    def script(self, *replies: Reply) -> None:
        """Add replies to the end of the script."""
        with self._lock:
            self._state.script.extend(replies)

    def wait_for_requests(self, count: int, timeout: float = PATIENCE_S) -> list[ReceivedRequest]:
        """Wait until at least `count` requests have come; not from the event loop of a test (see `await_requests`)."""
        return eventually(lambda: len(self.requests) >= count and self.requests, timeout) or []

    def wait_for_hang_ups(self, count: int, timeout: float = PATIENCE_S) -> None:
        """Wait until `count` clients have hung up before their answer."""
        eventually(
            lambda: self.hang_ups >= count, timeout, message=lambda: f"{self.hang_ups} hang-ups"
        )

    async def await_requests(
        self, count: int, timeout: float = PATIENCE_S
    ) -> list[ReceivedRequest]:
        """`wait_for_requests` for coroutines."""
        return await asyncio.to_thread(self.wait_for_requests, count, timeout)

    async def await_hang_ups(self, count: int, timeout: float = PATIENCE_S) -> None:
        """`wait_for_hang_ups` for coroutines."""
        await asyncio.to_thread(self.wait_for_hang_ups, count, timeout)

    def __enter__(self) -> FakeOpenAI:
        self._thread.start()
        assert self._ready.wait(PATIENCE_S), "the fake provider did not start"
        return self

    def __exit__(self, *_exc: object) -> None:
        self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "the fake provider did not stop"

    # -- inside the thread

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        tasks: set[asyncio.Task[None]] = set()

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = self._loop.create_task(self._connection(reader, writer))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._closing.wait()
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(asyncio.IncompleteReadError):
                await self._answer(Exchange(await _read(reader), reader, writer))
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _answer(self, exchange: Exchange) -> None:
        reply = self._take(exchange.request)
        try:
            await reply(exchange)
        except ConnectionError:
            with self._lock:
                self._state.hang_ups += 1

    def _take(self, request: ReceivedRequest) -> Reply:
        with self._lock:
            self._state.requests.append(request)
            return self._state.script.popleft() if self._state.script else self.default


async def _read(reader: asyncio.StreamReader) -> ReceivedRequest:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, path, _version = head[0].split(" ")
    pairs = (line.split(":", 1) for line in head[1:] if line)
    headers = {name.strip().lower(): value.strip() for name, value in pairs}
    data = await reader.readexactly(int(headers.get("content-length", "0")))
    return ReceivedRequest(method, path, headers, json.loads(data) if data else {})
