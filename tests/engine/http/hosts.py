"""A host application with routes of its own under the idempotency middleware, here and in child processes."""

# ruff: noqa: B008, C901 - FastAPI reads dependencies from defaults; a list of routes is no tangle

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import sqlalchemy as sa
import uvicorn
from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.responses import StreamingResponse

from engine.app import AiJobApp
from engine.config import Settings
from engine.http.app import create_http_app
from engine.http.auth import USER, Principal
from engine.http.edge import Edge, joining
from engine.http.idempotency import (
    IdempotencyMiddleware,
    idempotency_key,
    keyed_request,
    required_idempotency_key,
)
from engine.http.jobs import job_router
from engine.http.keyed import KeyedCall
from engine.http.reply import JobReply, job_reply
from engine.http.routes import install_problem_handlers
from engine.http.server import EdgeServer
from engine.http.tokens import SharedSecretTokens
from engine.idempotency.store import IdempotencyOptions
from engine.intake.commands import CreateJobInput
from tests.engine.http.senders import configure
from tests.engine.http.settings import SECRET, settings_for


class Counter:
    """Counts runs, and holds them at a gate until it is opened."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.gate = threading.Event()
        self.reset()

    def reset(self) -> None:
        """As it was in the beginning; whoever stood at the gate goes through."""
        self.gate.set()
        self.entered.clear()
        self.runs = 0


def make_host(app: AiJobApp, counter: Counter | None = None, **options: Any) -> FastAPI:
    """Routes of a host; the one line is ``add_middleware``."""
    counter = counter or Counter()
    edge = Edge(
        app,
        authenticate=SharedSecretTokens(SECRET),
        idempotency=IdempotencyOptions(**options),
    )
    host = FastAPI()
    host.state.edge = edge
    host.state.counter = counter
    host.add_middleware(IdempotencyMiddleware, edge=edge)
    install_problem_handlers(host)
    host.include_router(job_router(edge), prefix="/api/ai")
    _plain_routes(host, counter)
    _job_routes(host, edge, app, counter)
    return host


def _plain_routes(host: FastAPI, counter: Counter) -> None:
    @host.post("/count", status_code=201)
    def count(response: Response, status: int = 201) -> dict[str, Any]:
        counter.runs += 1
        counter.entered.set()
        counter.gate.wait(30)
        if status != 201:
            raise HTTPException(status, "told to")
        response.headers["Location"] = f"/things/{counter.runs}"
        response.headers["X-Other"] = "not kept"
        return {"b": counter.runs, "a": [1.0, "ü"]}

    @host.post("/raw")
    def raw(request: Request) -> Response:
        counter.runs += 1
        return Response(bytes(range(256)) + str(counter.runs).encode(), media_type="image/x-any")

    @host.post("/large")
    def large(size: int, chunked: bool = False) -> Response:
        counter.runs += 1

        async def parts() -> AsyncIterator[bytes]:
            for _ in range(size // 1000):
                yield b"x" * 1000

        return StreamingResponse(parts()) if chunked else Response(b"x" * size)

    @host.post("/stream")
    def stream() -> Response:
        counter.runs += 1

        async def events() -> AsyncIterator[bytes]:
            for number in range(3):
                yield f"data: {number}\n\n".encode()
                await asyncio.sleep(0)

        return StreamingResponse(events(), media_type="text/event-stream")

    @host.post("/crash")
    def crash() -> None:
        counter.runs += 1
        raise RuntimeError("secret /srv/path")

    @host.post("/empty", status_code=204)
    def empty() -> None:
        counter.runs += 1

    @host.post("/required")
    def required(key: str = Depends(required_idempotency_key)) -> str:
        return key

    @host.post("/sends")
    def sends(fail: bool = True, call: KeyedCall | None = Depends(keyed_request)) -> str:
        counter.runs += 1
        if call is not None:
            call.sending()
        if fail:
            raise HTTPException(502, "the provider hung up")
        return "sent"

    @host.get("/count")
    def runs() -> dict[str, int]:
        counter.runs += 1
        return {"runs": counter.runs, "pid": os.getpid()}


def _job_routes(host: FastAPI, edge: Edge, app: AiJobApp, counter: Counter) -> None:
    user = edge.gate.need(USER)

    def wanted(principal: Principal, value: Any, key: str | None = None) -> CreateJobInput:
        return CreateJobInput(
            user_id=principal.subject, job_type="synthetic", target_type="t", target_id="1",
            payload={"value": value}, idempotency_key=key,
        )  # fmt: skip

    @host.post("/jobs-by-key", status_code=202)
    def by_key(
        body: dict[str, Any],
        principal: Principal = user,
        key: str | None = Depends(idempotency_key),
        reply: JobReply = Depends(job_reply),
    ) -> Response:
        counter.runs += 1
        return reply(app.jobs.create_job(wanted(principal, body, key)))

    @host.post("/jobs-linked", status_code=202)
    def linked(
        body: dict[str, Any],
        hang: bool = False,
        principal: Principal = user,
        call: KeyedCall | None = Depends(keyed_request),
        reply: JobReply = Depends(job_reply),
    ) -> Response:
        """No key is given to the job: only the link keeps a repeat from making another one."""
        counter.runs += 1

        def unit(conn: sa.Connection) -> Any:
            made = app.jobs.create_job(wanted(principal, body), session=conn)
            if call is not None:
                call.link(conn, made.job.id)
            return made

        made = app.uow.run(joining(unit))
        if hang:
            print("job made", flush=True)
            counter.gate.clear()
            counter.gate.wait(60)
        return reply(made)


def serve_child(url: str, lease_ms: int) -> None:
    """A server process of its own; prints its port."""
    app = AiJobApp(settings=settings_for(url))
    host = make_host(app, lease_ms=lease_ms)
    run_printing_port(host, host.state.edge)


def settings_of(url: str, redis_url: str, provider_url: str) -> Settings:
    """Settings of an edge whose jobs other processes run."""
    return settings_for(url).model_copy(
        update={"redis_url": redis_url, "openai_base_url": provider_url, "model": "fake-1"}
    )


def serve_edge(url: str, redis_url: str, provider_url: str, lease_ms: int = 1_500) -> None:
    """A server of the whole edge in a process of its own; prints its port."""
    app = AiJobApp(settings=settings_of(url, redis_url, provider_url))
    configure(app)
    api = create_http_app(app, idempotency=IdempotencyOptions(lease_ms=lease_ms))
    run_printing_port(api, api.state.edge)


def run_printing_port(api: Any, edge: Edge) -> None:
    """Serve on any port and print it once it is open."""
    config = uvicorn.Config(api, host="127.0.0.1", port=0, log_level="warning")
    server = EdgeServer(config, edge)
    _when_started(server, lambda: print(f"port {_port(server)}", flush=True))
    server.run()


def _when_started(server: uvicorn.Server, act: Callable[[], None]) -> None:
    def wait() -> None:
        while not server.started:
            threading.Event().wait(0.01)
        act()

    threading.Thread(target=wait, daemon=True).start()


def _port(server: uvicorn.Server) -> int:
    return int(server.servers[0].sockets[0].getsockname()[1])
