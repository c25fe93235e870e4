"""In which shape a refused client is answered, for what stands in front of the routes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from starlette.responses import Response
from starlette.types import Scope

from engine.http.problem import Answerable

#: Where the request's id stands in the scope, once somebody has given it one.
REQUEST_ID: Final = "aijobs.request_id"

#: Says what a refused client is sent.
Render = Callable[[Scope, Answerable], Response]


def problems(scope: Scope, answer: Answerable) -> Response:
    """Refusals as RFC 9457 problems."""
    return answer.response(scope.get(REQUEST_ID))


def own_path(scope: Scope) -> str:
    """The path below the prefix that the application is served at."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))
