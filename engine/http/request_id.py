"""Every request has an id: the client's, where it gave a sound one, or a new one. It stands in the answer, in problems,
in the log and in the audit; the headers that every answer of ours carries are added on the way.
"""

from __future__ import annotations

import re
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engine.http.rendering import REQUEST_ID
from outbox.base.ids import new_id

_SOUND: Final = re.compile(rb"[A-Za-z0-9._:-]{1,64}")


class RequestIds:
    """ASGI middleware, outermost."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = scope[REQUEST_ID] = _given(scope) or new_id().hex

        async def marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["X-Request-ID"] = request_id
                headers.setdefault("X-Content-Type-Options", "nosniff")
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        await self._app(scope, receive, marked)


def _given(scope: Scope) -> str | None:
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _SOUND.fullmatch(value):
            return str(value.decode("ascii"))
    return None
