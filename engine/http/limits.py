"""How much one caller may ask of a server: the size of a body, and the rate of requests.

Both are per process. A deployment with several servers allows each caller the sum.
"""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import anyio
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engine.http.errors import HttpError, RateLimited, RequestTooLarge, RequestTooSlow
from engine.http.problem import describe
from engine.http.rendering import Render, problems

#: Time for a whole body, in seconds.
BODY_S: Final = 60.0
#: Callers remembered at most; the one that was quiet longest is forgotten first.
_CALLERS: Final = 20_000


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


class RateLimiter:
    """A bucket of requests per caller: ``per_minute`` flow in, up to a minute's worth may be taken at once."""

    def __init__(self, per_minute: int, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._per_minute = per_minute
        self._monotonic = monotonic
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, caller: str) -> None:
        """Count one request of ``caller``. Raises :class:`RateLimited` with the time until the next may come."""
        with self._lock:
            bucket = self._bucket(caller)
            if bucket.tokens < 1:
                wait = (1 - bucket.tokens) * 60 / self._per_minute
                raise RateLimited(retry_after_s=max(1, math.ceil(wait)))
            bucket.tokens -= 1

    def _bucket(self, caller: str) -> _Bucket:
        now = self._monotonic()
        bucket = self._buckets.pop(caller, None) or _Bucket(self._per_minute, now)
        gained = (now - bucket.at) * self._per_minute / 60
        bucket.tokens, bucket.at = min(self._per_minute, bucket.tokens + gained), now
        self._buckets[caller] = bucket
        if len(self._buckets) > _CALLERS:
            self._buckets.popitem(last=False)
        return bucket


class BodyLimit:
    """ASGI middleware: a body over ``limit`` bytes is refused with 413, by its announced length or as it comes.

    One that is not there after :data:`BODY_S` is refused with 408: nobody holds a request for nothing.
    """

    def __init__(self, app: ASGIApp, limit: int, render: Render = problems) -> None:
        self._app = app
        self._limit = limit
        self._render = render

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if _announced(scope) > self._limit:
            await self._render(scope, describe(_too_large(self._limit)))(scope, receive, send)
        else:
            await _Counted(self._limit, receive, send).run(self._app, scope, self._render)


class _Counted:
    """One request whose body is counted as it comes."""

    def __init__(self, limit: int, receive: Receive, send: Send) -> None:
        self._limit = limit
        self._receive = receive
        self._send = send
        self._taken = 0
        self._complete = False
        #: From when the body is first asked for; who reads it late has not kept the client from sending it.
        self._deadline: float | None = None
        self._started = False
        #: Why the body is not taken.
        self._broken: HttpError | None = None

    async def run(self, app: ASGIApp, scope: Scope, render: Render) -> None:
        try:
            await app(scope, self._counted, self._noted)
        except HttpError as error:
            if self._started or error is not self._broken:
                raise
        if self._broken is not None and not self._started:
            refusal = render(scope, describe(self._broken))
            await refusal(scope, self._receive, self._send)

    async def _counted(self) -> Message:
        if self._complete:
            # What comes now is that the client has gone, whenever that may be.
            return await self._receive()
        message = await self._piece()
        self._taken += len(message.get("body", b""))
        self._complete = not message.get("more_body", False)
        if self._taken > self._limit:
            raise self._break(_too_large(self._limit))
        return message

    async def _piece(self) -> Message:
        if self._deadline is None:
            self._deadline = anyio.current_time() + BODY_S
        try:
            with anyio.fail_after(self._deadline - anyio.current_time()):
                return await self._receive()
        except TimeoutError:
            raise self._break(RequestTooSlow()) from None

    def _break(self, error: HttpError) -> HttpError:
        self._broken = error
        return error

    async def _noted(self, message: Message) -> None:
        # An application may have made something else of the error, such as a 400.
        if self._started or self._broken is None:
            self._started = True
            await self._send(message)


def _too_large(limit: int) -> RequestTooLarge:
    return RequestTooLarge(detail=f"The request's body is larger than {limit} bytes.")


def _announced(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length":
            try:
                return int(value)
            except ValueError:
                return 0
    return 0
