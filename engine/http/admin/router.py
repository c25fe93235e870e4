"""The operator's API, put together."""

from __future__ import annotations

from fastapi import APIRouter

from engine.http.admin.acts import operators
from engine.http.admin.bulk import bulk_routes
from engine.http.admin.fleet import fleet_routes
from engine.http.admin.jobs import jobs_routes
from engine.http.admin.outbox import outbox_routes
from engine.http.admin.queues import queues_routes
from engine.http.edge import Edge
from engine.http.problem import problem_responses
from engine.http.routes import ProblemRoute


def admin_router(edge: Edge) -> APIRouter:
    """Everything operators may do; mount it under ``/admin-api/ai``."""
    router = APIRouter(
        route_class=ProblemRoute,
        tags=["admin"],
        responses=problem_responses(400, 401, 403, 404, 422, 429, 503),
    )
    operator = operators(edge)
    for add in (jobs_routes, bulk_routes, outbox_routes, queues_routes, fleet_routes):
        add(router, edge, operator)
    return router
