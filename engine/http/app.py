"""The whole edge as one FastAPI application; each of its routers can also be mounted in another one.

request id -> body limit -> idempotency -> routers, each of which asks the gate who is calling
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib.metadata import PackageNotFoundError, version
from uuid import UUID

from fastapi import FastAPI
from starlette.responses import Response
from starlette.types import Scope

from engine.app import AiJobApp
from engine.http.admin.router import admin_router
from engine.http.auth import Authenticator
from engine.http.channels.registry import Channels
from engine.http.channels.router import channel_router
from engine.http.edge import Edge
from engine.http.health import health_router
from engine.http.idempotency import IdempotencyMiddleware, JobRecovery
from engine.http.jobs import job_router
from engine.http.limits import BodyLimit
from engine.http.openai.failure import answer_in_openai_shape
from engine.http.openai.router import openai_router
from engine.http.problem import Answerable
from engine.http.rendering import own_path, problems
from engine.http.request_id import RequestIds
from engine.http.routes import install_problem_handlers
from engine.http.security import authenticator_of
from engine.idempotency.record import Answer
from engine.idempotency.store import IdempotencyOptions


def create_http_app(
    app: AiJobApp,
    *,
    authenticate: Authenticator | None = None,
    channels: Channels | None = None,
    idempotency: IdempotencyOptions | None = None,
) -> FastAPI:
    """The HTTP edge of ``app``.

    ``authenticate`` says who is calling (``request -> Principal | None``); without it the settings do, and
    where they say nothing only this machine is let in. ``channels`` are the app's own by default. Its parts
    are in ``api.state.edge``.
    """
    settings = app.settings.http
    edge = Edge(
        app, authenticate=authenticate or authenticator_of(settings), idempotency=idempotency
    )
    api = FastAPI(
        title="aijobs",
        version=package_version(),
        docs_url="/docs" if settings.docs else None,
        redoc_url=None,
        openapi_url="/openapi.json" if settings.docs else None,
        lifespan=_life(edge),
    )
    api.state.edge = edge
    api.include_router(job_router(edge), prefix="/api/ai")
    api.include_router(admin_router(edge), prefix="/admin-api/ai")
    api.include_router(openai_router(edge))
    api.include_router(channel_router(edge, channels), prefix="/channels")
    api.include_router(health_router(edge, version=api.version))
    install_problem_handlers(api, everything=True)
    api.add_middleware(
        IdempotencyMiddleware,
        edge=edge,
        applies=_takes_keys,
        render=_render,
        recover=_Recovery(edge),
    )
    api.add_middleware(BodyLimit, limit=settings.body_limit_bytes, render=_render)
    api.add_middleware(RequestIds)
    return api


def _life(edge: Edge) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        yield
        edge.close()

    return life


def _takes_keys(scope: Scope) -> bool:
    """Channels are told apart by their own ids; their senders are not callers of ours."""
    return not own_path(scope).startswith("/channels/")


def _render(scope: Scope, answer: Answerable) -> Response:
    """OpenAI's clients are refused in OpenAI's shape."""
    if own_path(scope).startswith("/v1/"):
        return answer_in_openai_shape(answer)
    return problems(scope, answer)


class _Recovery(JobRecovery):
    """A chat request attaches to its job by itself; others are answered with their job's state."""

    async def __call__(self, scope: Scope, job_id: UUID) -> Answer | None:
        if own_path(scope).startswith("/v1/"):
            return None
        return await super().__call__(scope, job_id)


def package_version() -> str:
    """The version of this distribution; "0" in a checkout that was not installed."""
    try:
        return version("aijobs")
    except PackageNotFoundError:
        return "0"
