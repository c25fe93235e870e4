"""``Idempotency-Key`` for any ASGI application: one line makes its routes safe to repeat.

    app.add_middleware(IdempotencyMiddleware, edge=edge)

A request with the header is claimed before it runs, its lease is renewed while it runs, and a 2xx answer is kept
to the byte before it is sent. Requests without the header are not touched. In a route, ``Depends(idempotency_key)``
gives the key, and ``Depends(keyed_request)`` the request's claim: where to note the job it makes, or that something
is sent to a provider.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final
from uuid import UUID

import anyio.to_thread
import sqlalchemy as sa
from fastapi import Request, Response
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engine.http.auth import Principal
from engine.http.bodies import job_status
from engine.http.edge import Edge
from engine.http.errors import RequestTooLarge
from engine.http.keyed import KEYED, KeyedCall
from engine.http.rendering import Render, problems
from engine.http.routes import described
from engine.idempotency.errors import (
    IdempotencyAnswerNotKept,
    IdempotencyInProgress,
    IdempotencyKeyMissing,
    IdempotencyOutcomeUnknown,
)
from engine.idempotency.guard import Decision, InProgress, OutcomeUnknown, Replay
from engine.idempotency.record import Answer, Claim
from engine.idempotency.request import KeyedRequest, fingerprint, read_key
from engine.lifecycle import views
from projectors import artifacts
from registry.errors import AiJobsError

#: The header, and ADR-114's name for it (X50); lower case.
HEADERS: Final = ("idempotency-key", "idempotency_key")
#: Methods that change something; of others a key says nothing.
METHODS: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})
#: Largest body of a request with a key, in bytes: it is read whole, to be compared.
BODY_LIMIT: Final = 16 * 1024 * 1024

#: The answer of an interrupted request, from the job it had made; None runs the request again.
Recover = Callable[[Scope, UUID], Awaitable[Answer | None]]


class IdempotencyMiddleware:
    """Runs a request with a key once."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        edge: Edge,
        applies: Callable[[Scope], bool] = lambda _: True,
        render: Render = problems,
        recover: Recover | None = None,
        body_limit: int = BODY_LIMIT,
    ) -> None:
        """``applies`` leaves requests alone, such as webhooks with senders of their own.

        ``recover`` makes the answer of a request that was interrupted after it had made a job; by default the
        job's state, as the job API shows it.
        """
        self._app = app
        self._store = edge.idempotency
        self._gate = edge.gate
        self._applies = applies
        self._render = render
        self._recover = recover or JobRecovery(edge)
        self._body_limit = body_limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] not in METHODS or not self._applies(scope):
            await self._app(scope, receive, send)
            return
        try:
            key = read_key(given_keys(Headers(scope=scope)))
        except AiJobsError as error:
            await self._refuse(scope, receive, send, error)
            return
        if key is None:
            # Outside of any try: what a route without a key raises is its application's to handle and to log.
            await self._app(scope, receive, send)
            return
        try:
            # Whose it is comes first: nobody unknown has a body of his kept in memory.
            principal = await self._gate.identify(HTTPConnection(scope))
            body = await _whole(receive, self._body_limit)
            claim = await self._claim(scope, principal, key, body)
        except Exception as error:  # noqa: BLE001 - judged by the map of problems, which lets nothing out
            await self._refuse(scope, receive, send, error)
            return
        if isinstance(claim, Answer):
            await _replayed(claim)(scope, receive, send)
            return
        await claim.run(self._app, scope, body, receive, send, render=self._render)

    async def _claim(
        self, scope: Scope, principal: Principal, key: str, body: bytes
    ) -> KeyedCall | Answer:
        """The right to run, or the answer of the request that had it. Raises what the client is refused with."""
        # With a prefix of its own, where it has one (ASGI).
        path = scope["path"]
        request = KeyedRequest(
            caller=principal.subject,
            route=f"{scope['method']} {path}",
            key=key,
            fingerprint=fingerprint(
                method=scope["method"], path=path, query=scope.get("query_string", b""), body=body
            ),
        )
        found = await anyio.to_thread.run_sync(self._store.claim, request)
        if not isinstance(found, Claim):
            return _answer_of(found)
        call = KeyedCall(self._store, request, found)
        recovered = await self._recovered(scope, found)
        if recovered is not None:
            await call.let_go()
            return recovered
        return call

    async def _recovered(self, scope: Scope, claim: Claim) -> Answer | None:
        return None if claim.job_id is None else await self._recover(scope, claim.job_id)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send, error: Exception) -> None:
        answer = described(Request(scope), error)
        await self._render(scope, answer)(scope, receive, send)


class JobRecovery:
    """The answer of an interrupted request from the job it had made: the job's state, and where to follow it."""

    def __init__(self, edge: Edge, *, prefix: str = "/api/ai") -> None:
        """``prefix`` is where the job router is mounted."""
        self._edge = edge
        self._prefix = prefix

    async def __call__(self, scope: Scope, job_id: UUID) -> Answer | None:
        """None where the job is gone; the request then runs again."""

        def look(conn: sa.Connection) -> Answer | None:
            job = views.find(conn, job_id)
            if job is None:
                return None
            body = job_status(job, artifacts.existing(conn, job_id)).to_bytes()
            place = ("location", f"{scope.get('root_path', '')}{self._prefix}/jobs/{job_id}")
            return Answer(200, body, "application/json", (place,))

        return await self._edge.read(look)


def given_keys(headers: Headers) -> list[str]:
    """Every value of the header, under either name."""
    return [value for name in HEADERS for value in headers.getlist(name)]


def _answer_of(found: Decision) -> Answer:
    """What the client gets instead of a run. Raises where it is a refusal."""
    if isinstance(found, InProgress):
        raise IdempotencyInProgress(job_id=found.job_id)
    if isinstance(found, OutcomeUnknown):
        raise IdempotencyOutcomeUnknown
    assert isinstance(found, Replay), "a store's claim ends in one of these"
    if found.answer.body is None:
        raise IdempotencyAnswerNotKept
    return found.answer


def _replayed(answer: Answer) -> Response:
    """The stored answer, to the byte."""
    response = Response(answer.body, answer.status)
    if answer.content_type is not None:
        response.headers["content-type"] = answer.content_type
    for name, value in answer.headers:
        response.headers.append(name, value)
    response.headers["Idempotency-Replayed"] = "true"
    return response


async def _whole(receive: Receive, limit: int) -> bytes:
    """The whole body of a request. Raises :class:`RequestTooLarge`."""
    parts: list[bytes] = []
    size, more = 0, True
    while more:
        message: Message = await receive()
        if message["type"] == "http.disconnect":
            break
        part = message.get("body", b"")
        size += len(part)
        if size > limit:
            raise RequestTooLarge(detail=f"A request with a key may have {limit} bytes at most.")
        parts.append(part)
        more = message.get("more_body", False)
    return b"".join(parts)


# ------------------------------------------------------------------ for routes


def idempotency_key(request: Request) -> str | None:
    """FastAPI dependency: the request's key, or None where it has none."""
    return read_key(given_keys(request.headers))


def required_idempotency_key(request: Request) -> str:
    """FastAPI dependency: the request's key; a request without one is refused."""
    key = idempotency_key(request)
    if key is None:
        raise IdempotencyKeyMissing
    return key


def keyed_request(request: Request) -> KeyedCall | None:
    """FastAPI dependency: the claim of a request with a key, under the middleware; else None."""
    found = request.scope.get(KEYED)
    return found if isinstance(found, KeyedCall) else None
