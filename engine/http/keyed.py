"""One request with a key, while it runs: its lease is renewed, its answer is kept before it is sent."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Final
from uuid import UUID

import anyio
import anyio.to_thread
import sqlalchemy as sa
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engine.http.problem import describe
from engine.http.rendering import Render, problems
from engine.idempotency.errors import IdempotencyInProgress
from engine.idempotency.guard import Replay
from engine.idempotency.record import Answer, Claim, kept
from engine.idempotency.request import KeyedRequest
from engine.idempotency.store import IdempotencyStore
from outbox.base.errors import DatabaseError

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

#: Where the call stands in the scope of its request.
KEYED: Final = "aijobs.keyed"
#: How often, and how long apart in seconds, an answer that could not be stored is tried again afterwards.
_LATE_TRIES, _LATE_PAUSE_S = 20, 3.0

_log = logging.getLogger("aijobs.http.idempotency")
#: Stores that go on after their request, kept from being collected.
_late: set[asyncio.Task[None]] = set()


class KeyedCall:
    """The claim of a running request. Routes may link the job they make, or say that something is sent."""

    def __init__(self, store: IdempotencyStore, request: KeyedRequest, claim: Claim) -> None:
        self._store = store
        self._request = request
        self._claim = claim
        self._job_is_settled = False
        self._is_over = False

    # -------------------------------------------------------------- for routes

    @property
    def record_id(self) -> UUID:
        """What a job made for this request is keyed by: the same after a take-over, new when the key is used anew."""
        return self._claim.record_id

    @property
    def job_id(self) -> UUID | None:
        """The job that an interrupted request with this key had made."""
        return self._claim.job_id

    def link(self, session: sa.Connection | Session, job_id: UUID) -> None:
        """Note the job that this request makes, in the transaction that makes it.

        Then a client that repeats the request after a crash gets that job, and no second one. Raises
        :class:`~engine.idempotency.errors.IdempotencyClaimLost`; let it pass, so that nothing is committed.
        """
        conn = session if isinstance(session, sa.Connection) else session.connection()
        self._store.link(conn, self._claim, job_id)

    def sending(self) -> None:
        """Call this before something is sent to a provider: the request is then never run again by itself."""
        self._store.mark_sent(self._claim)

    def settle_job(self) -> None:
        """The linked job has ended without effect: a repeat of this request may make another one."""
        self._job_is_settled = True

    # -------------------------------------------------------------- for the middleware

    @property
    def answer_limit(self) -> int:
        """Bytes an answer may have to be kept."""
        return self._store.options.answer_limit

    async def run(
        self,
        app: ASGIApp,
        scope: Scope,
        body: bytes,
        receive: Receive,
        send: Send,
        *,
        render: Render = problems,
    ) -> None:
        """Run the request, and keep or let go what comes of it."""
        scope[KEYED] = self
        outbound = _Outbound(self, scope, receive, send, render)
        renewal = asyncio.create_task(self._renew(), name="aijobs-renew")
        try:
            await app(scope, _given(body, receive), outbound.send)
        except Exception:
            # Not on cancellation: a thread may still be at work, and the lease ends by itself.
            await self.let_go()
            raise
        else:
            await self.let_go()
        finally:
            renewal.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await renewal

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._store.options.renew_ms / 1000)
            try:
                if not await anyio.to_thread.run_sync(self._store.renew, self._claim):
                    return
            except DatabaseError as error:
                _log.warning("a lease was not renewed: %s", error.code)

    async def keep(self, answer: Answer) -> Answer | None:
        """Store ``answer``; returns what the client is to get, None where it must come again.

        Should the claim have been lost meanwhile, the answer of the request that won counts (AH-6).
        """
        self._is_over = True
        try:
            if await anyio.to_thread.run_sync(self._store.complete, self._claim, answer):
                return answer
            found = await anyio.to_thread.run_sync(self._store.look, self._request)
        except DatabaseError as error:
            # The work is done; what is missing is the note of it (X56).
            _log.warning("an answer was not kept yet: %s", error.code)
            task = asyncio.create_task(self._keep_later(answer))
            _late.add(task)
            task.add_done_callback(_late.discard)
            return answer
        return found.answer if isinstance(found, Replay) else None

    async def _keep_later(self, answer: Answer) -> None:
        for _ in range(_LATE_TRIES):
            await asyncio.sleep(_LATE_PAUSE_S)
            with contextlib.suppress(DatabaseError):
                await anyio.to_thread.run_sync(self._store.complete, self._claim, answer)
                return

    async def let_go(self) -> None:
        """The request ends without an answer to keep; does nothing where it has ended."""
        if self._is_over:
            return
        self._is_over = True
        settled = self._job_is_settled
        try:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(
                    lambda: self._store.let_go(self._claim, job_is_settled=settled)
                )
        except DatabaseError as error:
            # Then the lease ends by itself.
            _log.warning("a key was not let go: %s", error.code)


class _Outbound:
    """The way back to the client: held until the answer is kept, unless it is a stream."""

    def __init__(
        self, call: KeyedCall, scope: Scope, receive: Receive, send: Send, render: Render
    ) -> None:
        self._call = call
        self._scope = scope
        self._receive = receive
        self._send = send
        self._render = render
        self._limit = call.answer_limit
        self._start: Message | None = None
        self._parts: list[bytes] = []
        self._size = 0
        self._streaming = False

    async def send(self, message: Message) -> None:
        """Take a message of the application."""
        if self._streaming:
            await self._pass_on(message)
        elif message["type"] == "http.response.start":
            await self._begin(message)
        elif message["type"] == "http.response.body":
            await self._take(message)
        else:
            await self._send(message)

    async def _begin(self, message: Message) -> None:
        self._start = message
        if _is_event_stream(message):
            self._streaming = True
            await self._send(message)

    async def _take(self, message: Message) -> None:
        self._parts.append(message.get("body", b""))
        self._size += len(self._parts[-1])
        if not message.get("more_body", False):
            await self._settle()
        elif self._size > self._limit:
            self._streaming = True
            await self._send(self._started)
            await self._send(
                {"type": "http.response.body", "body": b"".join(self._parts), "more_body": True}
            )

    async def _settle(self) -> None:
        answer = self._answer(b"".join(self._parts))
        if not answer.successful:
            await self._call.let_go()
            await self._pass_whole()
            return
        outcome = await self._call.keep(self._too_large(answer))
        if outcome is None:
            busy = self._render(self._scope, describe(IdempotencyInProgress()))
            await busy(self._scope, self._receive, self._send)
        elif outcome.body is None or outcome.body == answer.body:
            await self._pass_whole()
        else:
            other = Response(outcome.body, outcome.status, media_type=outcome.content_type)
            await other(self._scope, self._receive, self._send)

    async def _pass_whole(self) -> None:
        await self._send(self._started)
        await self._send({"type": "http.response.body", "body": b"".join(self._parts)})

    async def _pass_on(self, message: Message) -> None:
        """A stream goes out as it comes; an event stream is not kept, a long answer only as such.

        Either is settled before its end goes out: who has read it may repeat the request at once.
        """
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            answer = self._answer(None)
            keeps = answer.successful and not _is_event_stream(self._started)
            await (self._call.keep(answer) if keeps else self._call.let_go())
        await self._send(message)

    @property
    def _started(self) -> Message:
        assert self._start is not None, "a body comes after its start"
        return self._start

    def _answer(self, body: bytes | None) -> Answer:
        headers = Headers(raw=self._started["headers"])
        return Answer(
            status=self._started["status"],
            body=body,
            content_type=headers.get("content-type"),
            headers=kept(headers.items()),
        )

    def _too_large(self, answer: Answer) -> Answer:
        return self._answer(None) if self._size > self._limit else answer


def _is_event_stream(start: Message) -> bool:
    kind = Headers(raw=start["headers"]).get("content-type", "")
    return kind.partition(";")[0].strip().lower() == "text/event-stream"


def _given(body: bytes, receive: Receive) -> Receive:
    """``receive`` of a request whose body was read: the body once, then what comes."""
    sent = False

    async def again() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again
