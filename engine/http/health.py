"""``/livez``, ``/readyz`` and ``/metrics``, at the root. The first two say nothing worth hiding and are open."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse

from engine.http.auth import METRICS, Principal
from engine.http.edge import Edge
from engine.http.problem import problem_responses
from engine.http.routes import ProblemRoute
from engine.migrations import standing
from engine.observe.metrics import CONTENT_TYPE, Metrics
from engine.observe.readiness import ReadinessCheck

_STATUS: dict[str, Any] = {
    "type": "object",
    "required": ["status"],
    "properties": {"status": {"type": "string"}, "checks": {"type": "object"}},
}


def health_router(edge: Edge, *, version: str) -> APIRouter:
    """Probes and metrics of this process; mount it without a prefix."""
    router = APIRouter(route_class=ProblemRoute, tags=["health"])
    app = edge.app
    queues = [queue.name for queue in app.registry.queues]
    ready = ReadinessCheck(
        uow=app.uow,
        transport=lambda: app.transport,
        queues=queues,
        schema_is_current=lambda: standing.is_recent(app.database),
        progress=edge.progress,
    )
    metrics = Metrics(
        telemetry=app.telemetry,
        uow=app.uow,
        clock=app.clock,
        transport=lambda: app.transport,
        queues=queues,
        version=version,
    )

    @router.get("/livez", responses=_answers(200))
    async def livez() -> dict[str, str]:
        """This process runs and its event loop turns."""
        return {"status": "alive"}

    @router.get("/readyz", responses=_answers(200, 503))
    def readyz() -> Response:
        """This process can do its work: the database answers, its tables are current, nobody is kept waiting."""
        status, body = ready.body()
        return JSONResponse(body, status)

    @router.get(
        "/metrics",
        response_class=Response,
        responses={
            200: {"description": "Prometheus' text format.", "content": {"text/plain": {}}},
            **problem_responses(401, 403, 429),
        },
    )
    def read_metrics(principal: Principal = edge.gate.need(METRICS)) -> Response:
        """Counters of this process, gauges of the database and Redis. Needs the scope `metrics`."""
        return Response(metrics.text(), media_type=CONTENT_TYPE)

    return router


def _answers(*statuses: int) -> dict[int | str, dict[str, Any]]:
    content = {"application/json": {"schema": _STATUS}}
    words = {200: "As it should be", 503: "Not ready"}
    return {status: {"description": words[status], "content": content} for status in statuses}
