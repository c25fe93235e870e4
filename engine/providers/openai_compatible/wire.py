"""The HTTP client under the SDK: it knows whether a request has left, and sends no more than it must."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, Final

import httpx2
from openai import AsyncOpenAI

#: A host that does not take a connection within this many seconds is down.
CONNECT_S: Final = 10.0

#: All that a provider gets to see. The SDK adds the machine's system, versions and whatever the process's
#: environment says (OPENAI_ORG_ID, OPENAI_CUSTOM_HEADERS), which may be meant for another endpoint.
_SENT_HEADERS: Final = frozenset(
    {
        "accept",
        "accept-encoding",
        "authorization",
        "connection",
        "content-length",
        "content-type",
        "host",
        "idempotency-key",
        "transfer-encoding",
    }
)


class Wire:
    """What has happened to the present call on the network."""

    def __init__(self) -> None:
        #: Whether any byte of the latest request may have reached the provider (WL-11).
        self.sent = False
        #: How many requests were sent: refusals of a dialect count too (WL-10).
        self.requests = 0

    async def trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Hear from the HTTP library; CONNECT only opens a tunnel through a proxy."""
        if event.endswith("send_request_headers.started") and info["request"].method != b"CONNECT":
            self.sent = True
            self.requests += 1


#: The call that the running task makes.
current_wire: ContextVar[Wire] = ContextVar("aijobs_wire")


async def _on_request(request: httpx2.Request) -> None:
    for name in set(request.headers) - _SENT_HEADERS:
        del request.headers[name]
    request.headers["user-agent"] = "aijobs"
    wire = current_wire.get()
    wire.sent = False
    request.extensions = {**request.extensions, "trace": wire.trace}


class Connections:
    """One pool of connections to one base URL, shared by all keys: a key lives in its request alone."""

    def __init__(self, base_url: str, *, trust_env: bool = True) -> None:
        """Take where to send; ``trust_env`` lets the usual proxy and certificate variables count."""
        self._base_url = base_url
        self._trust_env = trust_env
        self._client: AsyncOpenAI | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        # The HTTP library's DEBUG lines name URLs and headers of answers; only its warnings are for our logs.
        for name in ("openai", "httpx2", "httpcore2"):
            _quiet(logging.getLogger(name))

    def client(self) -> AsyncOpenAI:
        """The client of the running event loop. Connections of an earlier loop cannot be used or closed."""
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            self._client, self._loop = self._open(), loop
        return self._client

    def _open(self) -> AsyncOpenAI:
        return AsyncOpenAI(
            base_url=self._base_url,
            # The real key is a header of each request.
            api_key="set-per-request",
            max_retries=0,
            http_client=httpx2.AsyncClient(
                # A redirect would carry the prompt to a host that nobody configured.
                follow_redirects=False,
                trust_env=self._trust_env,
                event_hooks={"request": [_on_request]},
                # The engine bounds how many calls run; a second queue here would only hide waiting.
                limits=httpx2.Limits(
                    max_connections=None, max_keepalive_connections=50, keepalive_expiry=5
                ),
            ),
        )

    async def aclose(self) -> None:
        """Close the connections of this loop."""
        client, self._client = self._client, None
        if client is not None and self._loop is asyncio.get_running_loop():
            await client.close()


def call_timeout(seconds: float, connect_s: float) -> httpx2.Timeout:
    """The time limits of one call, never longer than the attempt's remaining time (WL-10)."""
    return httpx2.Timeout(seconds, connect=min(seconds, connect_s))


def _quiet(logger: logging.Logger) -> None:
    if logger.level < logging.WARNING:
        logger.setLevel(logging.WARNING)
