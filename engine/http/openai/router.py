"""``POST /v1/chat/completions`` and ``GET /v1/models``, at the root as OpenAI's clients expect them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Path, Request, Response
from fastapi.responses import StreamingResponse

from engine.http.auth import USER, Principal
from engine.http.edge import Edge
from engine.http.idempotency import keyed_request
from engine.http.keyed import KeyedCall
from engine.http.openai.answer import completion
from engine.http.openai.failure import (
    SHOULD_RETRY,
    OpenAIRoute,
    StillRunning,
    answer_in_openai_shape,
    failure_of,
)
from engine.http.openai.job import begin, may_be_made_anew
from engine.http.openai.offer import Offer
from engine.http.openai.request import ChatRequest
from engine.http.openai.stream import ChunkStream, output_of
from engine.http.problem import Answerable, describe
from registry.job import JobView, LifecycleStatus

_ERROR: Final = {
    "application/json": {
        "schema": {
            "type": "object",
            "required": ["error"],
            "properties": {
                "error": {
                    "type": "object",
                    "required": ["message", "type", "param", "code"],
                    "properties": {
                        "message": {"type": "string"},
                        "type": {"type": "string"},
                        "param": {"type": ["string", "null"]},
                        "code": {"type": ["string", "null"]},
                    },
                }
            },
        }
    }
}


def _errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {
        status: {"description": "An error in OpenAI's shape", "content": _ERROR}
        for status in statuses
    }


def openai_router(edge: Edge) -> APIRouter:
    """``/v1/chat/completions`` and ``/v1/models``; mount it without a prefix."""
    router = APIRouter(
        route_class=OpenAIRoute, tags=["openai"], responses=_errors(401, 403, 429, 503)
    )
    _models_routes(router, edge, Offer.of(edge.app.settings))
    _chat_route(router, edge, Offer.of(edge.app.settings))
    return router


def _models_routes(router: APIRouter, edge: Edge, offer: Offer) -> None:
    user = edge.gate.need(USER)

    @router.get("/v1/models")
    async def list_models(principal: Principal = user) -> dict[str, Any]:
        """The models that chat requests may name."""
        return {"object": "list", "data": [_model(name) for name in offer.models]}

    @router.get("/v1/models/{model}", responses=_errors(400, 404))
    async def read_model(
        model: Annotated[str, Path(max_length=128)], principal: Principal = user
    ) -> dict[str, Any]:
        """One model."""
        offer.accept(model)
        return _model(model)


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "aijobs"}


def _chat_route(router: APIRouter, edge: Edge, offer: Offer) -> None:
    @router.post(
        "/v1/chat/completions",
        responses={
            200: {
                "description": "The completion, or with `stream` its chunks.",
                "content": {"application/json": {"schema": {}}, "text/event-stream": {}},
            },
            **_errors(400, 404, 409, 413, 422, 500, 502, 504),
        },
    )
    async def complete_chat(
        request: Request,
        body: ChatRequest,
        principal: Principal = edge.gate.need(USER),
        call: KeyedCall | None = Depends(keyed_request),
    ) -> Response:
        """Continue a conversation. The work is a durable job: it goes on when this connection does not."""
        payload = body.payload(offer.accept(body.model))
        job = await edge.thread(lambda: begin(edge, principal, payload, call))
        chat = _Chat(edge, body, call, request.scope.get("root_path", ""))
        return chat.stream(job) if payload.stream else await chat.whole(job)


class _Chat:
    """One request, once its job is made."""

    def __init__(self, edge: Edge, body: ChatRequest, call: KeyedCall | None, root: str) -> None:
        self._edge = edge
        self._body = body
        self._call = call
        self._root = root
        self._patience_s = edge.app.settings.http.chat_wait_ms / 1000

    async def whole(self, job: JobView) -> Response:
        """The whole answer, when the job ends in time."""
        async with self._edge.watch.watch(job.id) as watcher:
            job = await watcher.final(job, self._patience_s)
        if not job.is_final:
            return self._later(job)
        if job.lifecycle_status is not LifecycleStatus.SUCCEEDED:
            self._settle(job)
            return answer_in_openai_shape(failure_of(job))
        output = await output_of(self._edge, job)
        content = completion(job, output, self._body.model)
        return Response(content, headers=self._place(job), media_type="application/json")

    def stream(self, job: JobView) -> Response:
        """The answer as chunks."""
        chunks = ChunkStream(
            self._edge, job, self._body.model,
            wants_usage=self._body.wants_usage, patience_s=self._patience_s,
        )  # fmt: skip

        async def sent() -> AsyncIterator[bytes]:
            try:
                async for data in chunks.chunks():
                    yield data
            finally:
                self._settle(chunks.job)
            if self._call is not None:
                # Who has read the last event may repeat the request at once.
                await self._call.let_go()
            yield chunks.last

        headers = self._place(job) | {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        return StreamingResponse(sent(), headers=headers, media_type="text/event-stream")

    def _later(self, job: JobView) -> Response:
        """504: the job goes on. A repeat with the same key attaches to it; without one it would be another job."""
        answer = describe(StillRunning(job_id=job.id))
        headers = self._place(job) | {
            "Retry-After": "1",
            SHOULD_RETRY: "true" if self._call is not None else "false",
        }
        extra = {"job_id": str(job.id)}
        return answer_in_openai_shape(
            Answerable(answer.status, answer.code, answer.detail, headers, extra)
        )

    def _settle(self, job: JobView) -> None:
        if self._call is not None and may_be_made_anew(job):
            self._call.settle_job()

    def _place(self, job: JobView) -> dict[str, str]:
        return {"Location": f"{self._root}/api/ai/jobs/{job.id}", "X-Job-Id": str(job.id)}
