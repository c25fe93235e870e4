"""The route class of our routers: whatever goes wrong in one of our routes becomes a problem, also in a host
application that has no handlers of ours.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from engine.http.errors import (
    HttpError,
    MethodNotAllowed,
    NotFound,
    RequestInvalid,
    RequestMalformed,
    RequestTooLarge,
)
from engine.http.problem import Answerable, describe, validation_errors
from engine.http.rendering import REQUEST_ID
from registry.errors import AiJobsError

_log = logging.getLogger("aijobs.http")

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


def request_id(request: Request) -> str | None:
    """The id of this request, for the answer, the log and the audit."""
    found = request.scope.get(REQUEST_ID)
    return found if isinstance(found, str) else None


class ProblemRoute(APIRoute):
    """A route that answers every error as a problem (RFC 9457)."""

    def get_route_handler(self) -> Handler:
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                return await handle(request)
            except Exception as error:  # noqa: BLE001 - the edge: nothing may pass it as it is
                return self.render(request, error)

        return answer

    def render(self, request: Request, error: Exception) -> Response:
        """The response for ``error``."""
        return described(request, error).response(request_id(request))


def described(request: Request, error: Exception) -> Answerable:
    """What the client is told about ``error``; what it is not told goes to the log."""
    answer = describe(known(error))
    if answer.status >= 500:
        _log.warning(
            "%s %s: %s", request.method, request.scope.get("path"), type(error).__name__,
            exc_info=error if answer.code == "INTERNAL_ERROR" else None,
            extra={"code": answer.code, "request_id": request_id(request)},
        )  # fmt: skip
    return answer


def known(error: Exception) -> Exception:
    """FastAPI's own errors as ours; others as they are."""
    if isinstance(error, RequestValidationError):
        return _invalid(error)
    if isinstance(error, HTTPException):
        return _of_status(error)
    return error


def _invalid(error: RequestValidationError) -> HttpError:
    found = error.errors()
    if any(item["type"] == "json_invalid" for item in found):
        return RequestMalformed(detail="The request's body is not JSON.")
    return RequestInvalid(errors=validation_errors(found))


def _of_status(error: HTTPException) -> Exception:
    known_statuses: dict[int, type[HttpError]] = {
        400: RequestMalformed,
        404: NotFound,
        405: MethodNotAllowed,
        413: RequestTooLarge,
    }
    found = known_statuses.get(error.status_code)
    return error if found is None else found()


def install_problem_handlers(app: FastAPI, *, everything: bool = False) -> None:
    """Answer errors of ours as problems in every route of ``app``; with ``everything`` all others too."""

    async def handle(request: Request, error: Exception) -> Response:
        response = described(request, error).response(request_id(request))
        if isinstance(error, HTTPException) and error.headers:
            response.headers.update(error.headers)
        return response

    kinds: tuple[type[Exception], ...] = (AiJobsError,)
    if everything:
        kinds = (AiJobsError, HTTPException, RequestValidationError, Exception)
    for kind in kinds:
        app.add_exception_handler(kind, handle)
