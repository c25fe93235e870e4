"""The whole edge as one FastAPI application; each of its routers can also be mounted in another one.

request id -> body limit -> idempotency -> routers, each of which asks the gate who is calling
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib.metadata import PackageNotFoundError, version

from fastapi import FastAPI
from starlette.types import Scope

from engine.app import AiJobApp
from engine.http.admin.router import admin_router
from engine.http.auth import Authenticator
from engine.http.edge import Edge
from engine.http.idempotency import IdempotencyMiddleware
from engine.http.jobs import job_router
from engine.http.limits import BodyLimit
from engine.http.request_id import RequestIds
from engine.http.routes import install_problem_handlers
from engine.http.security import authenticator_of


def create_http_app(app: AiJobApp, *, authenticate: Authenticator | None = None) -> FastAPI:
    """The HTTP edge of ``app``.

    ``authenticate`` says who is calling (``request -> Principal | None``); without it the settings do, and
    where they say nothing only this machine is let in. Its parts are in ``api.state.edge``.
    """
    settings = app.settings.http
    edge = Edge(app, authenticate=authenticate or authenticator_of(settings))
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
    install_problem_handlers(api, everything=True)
    api.add_middleware(IdempotencyMiddleware, edge=edge, applies=_takes_keys)
    api.add_middleware(BodyLimit, limit=settings.body_limit_bytes)
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
    return not scope["path"].startswith("/channels/")


def package_version() -> str:
    """The version of this distribution; "0" in a checkout that was not installed."""
    try:
        return version("aijobs")
    except PackageNotFoundError:
        return "0"
