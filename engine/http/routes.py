"""The route class of our routers: whatever goes wrong in one of our routes becomes a problem, also in a host
application that has no handlers of ours.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Coroutine, Iterator
from functools import cached_property
from typing import Any, get_args, get_origin

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


def _query_fields(dependant: Any) -> Iterator[Any]:
    """The query parameters of a route and of what it depends on."""
    yield from dependant.query_params
    for other in dependant.dependencies:
        yield from _query_fields(other)


def _fault(name: str, message: str) -> dict[str, str]:
    return {"place": f"query.{name[:64]}", "message": message}


def _takes_a_list(annotation: Any) -> bool:
    return get_origin(annotation) is list or any(map(_takes_a_list, get_args(annotation)))


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
                self.check_query(request)
                return await handle(request)
            except Exception as error:  # noqa: BLE001 - the edge: nothing may pass it as it is
                return self.render(request, error)

        return answer

    def check_query(self, request: Request) -> None:
        """Refuse what could only be passed over: a filter that is misspelt, or given twice and meant once."""
        takes = self._takes
        for name in request.query_params if takes else ():
            if name not in takes:
                raise RequestInvalid(errors=[_fault(name, "is not a parameter of this resource")])
            if not takes[name] and len(request.query_params.getlist(name)) > 1:
                raise RequestInvalid(errors=[_fault(name, "is given twice")])

    @cached_property
    def _takes(self) -> dict[str, bool]:
        """The query parameters of this route, and whether each takes several values."""
        fields = _query_fields(self.dependant)
        return {field.alias: _takes_a_list(field.field_info.annotation) for field in fields}

    def render(self, request: Request, error: Exception) -> Response:
        """The response for ``error``."""
        return described(request, error).response(request_id(request))


def described(request: Request, error: Exception) -> Answerable:
    """What the client is told about ``error``; what it is not told goes to the log."""
    answer = describe(known(error))
    if answer.status >= 500:
        _log.warning(
            "%s %s: %s at %s", request.method, request.scope.get("path"), type(error).__name__, _place(error),
            extra={"code": answer.code, "request_id": request_id(request)},
        )  # fmt: skip
        _log.debug("the request failed", exc_info=error)
    return answer


def _place(error: Exception) -> str:
    """Where an error was raised; its text may hold what must not be logged."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno}" if frames else "nowhere"


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
